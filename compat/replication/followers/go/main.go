// Writes by go-redis to the primary that Sentinels name: main SENTINEL,SENTINEL,.. NAME KEY
// What it prints, and when it ends, is what the scenario `followers` asks of each such program.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	replicas = 2
	waitMs   = 50
	pause    = 3 * time.Millisecond
)

func write(client *redis.Client, key string, number int) (int, error) {
	ctx := context.Background()
	var waited *redis.Cmd
	var isThere *redis.BoolCmd
	_, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.SAdd(ctx, key, number)
		waited = pipe.Do(ctx, "WAIT", replicas, waitMs)
		isThere = pipe.SIsMember(ctx, key, number)
		return nil
	})
	if err != nil {
		return 0, err
	}
	if !isThere.Val() {
		return 0, errors.New("what was written is not there")
	}
	return waited.Int()
}

func main() {
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		SentinelAddrs: strings.Split(os.Args[1], ","),
		MasterName:    os.Args[2],
	})
	var isOver atomic.Bool
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		isOver.Store(true)
	}()
	for number := 0; !isOver.Load(); number++ {
		if count, err := write(client, os.Args[3], number); err == nil {
			fmt.Println("written", number, count)
		} else {
			fmt.Println("failed", strings.ReplaceAll(err.Error(), "\n", " "))
		}
		time.Sleep(pause)
	}
	_ = client.Close()
	fmt.Println("end")
}
