package main

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// Cores of the kernel's mask as libc fixes it.
const coresMax = 1024

// Pins this process to a core, or does nothing for a negative one. Go's runtime has threads already, so the
// pinned thread becomes the same program again, whose threads all inherit its core.
func pin(core int) error {
	if core < 0 || os.Getenv(pinned) != "" {
		return nil
	}
	if core >= coresMax {
		return fmt.Errorf("cores go up to %d", coresMax-1)
	}
	runtime.LockOSThread()
	var mask [coresMax / 64]uint64
	mask[core/64] = 1 << (core % 64)
	at, size := uintptr(unsafe.Pointer(&mask)), unsafe.Sizeof(mask)
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SCHED_SETAFFINITY, 0, size, at); errno != 0 {
		return fmt.Errorf("cannot run on core %d: %w", core, errno)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return syscall.Exec(self, os.Args, append(os.Environ(), pinned+"=1"))
}

const pinned = "RINGWAY_PEERS_GO_PINNED"
