// What an application does with go-redis over TLS: main HOST:PORT DIRECTORY
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/redis/go-redis/v9"
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "FAILED", err)
		os.Exit(1)
	}
}

func check(is bool, what string) {
	if !is {
		must(fmt.Errorf("%s", what))
	}
}

func connect(certificate string) *redis.Client {
	directory := os.Args[2]
	authority, err := os.ReadFile(filepath.Join(directory, "ca.crt"))
	must(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	config := &tls.Config{RootCAs: roots, ServerName: "localhost"}
	if certificate != "" {
		path := filepath.Join(directory, certificate)
		own, err := tls.LoadX509KeyPair(path+".crt", path+".key")
		must(err)
		config.Certificates = []tls.Certificate{own}
	}
	return redis.NewClient(&redis.Options{Addr: os.Args[1], TLSConfig: config, MaxRetries: -1})
}

func main() {
	ctx := context.Background()
	client := connect("client")
	must(client.Ping(ctx).Err())
	value := bytes.Repeat([]byte("v"), 5_000_000)
	must(client.Set(ctx, "k", value, 0).Err())
	got, err := client.Get(ctx, "k").Bytes()
	must(err)
	check(bytes.Equal(got, value), "the value is another")
	var group sync.WaitGroup
	for range 50 {
		group.Add(1)
		go func() {
			defer group.Done()
			_, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
				for range 100 {
					pipe.Incr(ctx, "n")
				}
				return nil
			})
			must(err)
		}()
	}
	group.Wait()
	count, err := client.Get(ctx, "n").Int()
	must(err)
	check(count == 5000, "a count is wrong")
	listening := client.Subscribe(ctx, "c")
	_, err = listening.Receive(ctx)
	must(err)
	must(client.Publish(ctx, "c", "hi").Err())
	message, err := listening.ReceiveMessage(ctx)
	must(err)
	check(message.Payload == "hi", "another message")
	check(connect("").Ping(ctx).Err() != nil, "without a certificate")
	check(connect("stranger").Ping(ctx).Err() != nil, "with a stranger's")
	fmt.Println("all passed")
}
