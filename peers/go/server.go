package main

import (
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os"
	"os/signal"
	"syscall"
)

// Echo is the service. Its messages are bytes, which Go's JSON has as base64, as Ringway's has.
type Echo struct{}

// Say answers with what it was given.
func (Echo) Say(message []byte, reply *[]byte) error {
	*reply = message
	return nil
}

// Serves until SIGTERM or SIGINT. A socket file is removed at the end.
func serve(address string) error {
	network, at, err := place(address)
	if err != nil {
		return err
	}
	services := rpc.NewServer()
	if err := services.Register(Echo{}); err != nil {
		return err
	}
	listener, err := net.Listen(network, at)
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-signals
		listener.Close()
	}()
	fmt.Printf("listening on %s://%s\n", network, listener.Addr())
	for {
		connection, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go services.ServeCodec(jsonrpc.NewServerCodec(connection))
	}
}
