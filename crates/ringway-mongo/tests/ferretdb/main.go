// Command ferretdb serves MongoDB's protocol on an address, with its data in a folder. It prints where it listens.
package main

import (
	"context"
	"fmt"
	"log"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"github.com/FerretDB/FerretDB/ferretdb"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: ferretdb ADDRESS FOLDER")
	}
	server, err := ferretdb.New(&ferretdb.Config{
		Listener: ferretdb.ListenerConfig{TCP: os.Args[1]},
		Handler:  "sqlite",
		// The data of a test need not survive a crash, and disks of busy machines take seconds to confirm them.
		SQLiteURL: "file:" + os.Args[2] + "/?_pragma=synchronous(off)",
	})
	if err != nil {
		log.Fatal(err)
	}
	place, err := url.Parse(server.MongoDBURI())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(place.Host)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := server.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
