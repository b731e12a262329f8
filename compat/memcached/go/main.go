// What programs do with gomemcache, done to the memcached port HOST:PORT.
//
//	go run . 127.0.0.1:11211
//
// The server's data is lost. Exit code 1 when a check fails; memcached 1.6.18 passes all.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/bradfitz/gomemcache/memcache"
)

func main() {
	address := "127.0.0.1:11211"
	if len(os.Args) > 1 {
		address = os.Args[1]
	}
	checks := []struct {
		name string
		run  func(*memcache.Client) error
	}{
		{"values", values}, {"conditions", conditions}, {"many", many}, {"counting", counting},
		{"cas", cas}, {"times", times},
	}
	failed := 0
	for _, check := range checks {
		client := memcache.New(address)
		err := client.DeleteAll()
		if err == nil {
			err = check.run(client)
		}
		if err != nil {
			failed++
			fmt.Printf("FAILED %s: %v\n", check.name, err)
		}
		client.Close()
	}
	fmt.Printf("gomemcache: %d passed, %d failed\n", len(checks)-failed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}

// is tells whether an error is the one that is expected.
func is(got, expected error) error {
	if !errors.Is(got, expected) {
		return fmt.Errorf("expected %v, got %v", expected, got)
	}
	return nil
}

func all(errs ...error) error { return errors.Join(errs...) }

func item(key, value string) *memcache.Item {
	return &memcache.Item{Key: key, Value: []byte(value), Flags: 7}
}

func holds(c *memcache.Client, key, value string) error {
	got, err := c.Get(key)
	if err != nil {
		return err
	}
	if string(got.Value) != value || got.Flags != 7 {
		return fmt.Errorf("%s: %.40q with flags %d", key, got.Value, got.Flags)
	}
	return nil
}

func values(c *memcache.Client) error {
	large := string(bytes.Repeat([]byte("x\r\n\x00"), 200_000))
	for _, value := range []string{"", "text", "\r\n", large} {
		if err := all(c.Set(item("k", value)), holds(c, "k", value)); err != nil {
			return err
		}
	}
	_, err := c.Get("missing")
	return all(is(err, memcache.ErrCacheMiss), c.Ping())
}

func conditions(c *memcache.Client) error {
	return all(
		c.Add(item("k", "a")),
		is(c.Add(item("k", "b")), memcache.ErrNotStored),
		is(c.Replace(item("missing", "b")), memcache.ErrNotStored),
		is(c.Append(item("missing", "b")), memcache.ErrNotStored),
		c.Append(item("k", "b")),
		c.Prepend(item("k", "_")),
		holds(c, "k", "_ab"),
		c.Delete("k"),
		is(c.Delete("k"), memcache.ErrCacheMiss),
	)
}

func many(c *memcache.Client) error {
	keys := []string{"missing"}
	for number := range 500 {
		key := "key:" + strconv.Itoa(number)
		keys = append(keys, key)
		if err := c.Set(item(key, key)); err != nil {
			return err
		}
	}
	found, err := c.GetMulti(keys)
	if err != nil || len(found) != 500 || string(found["key:499"].Value) != "key:499" {
		return fmt.Errorf("%d found, %v", len(found), err)
	}
	return nil
}

func counting(c *memcache.Client) error {
	_, missing := c.Increment("n", 1)
	set := c.Set(item("n", "10"))
	up, upErr := c.Increment("n", 5)
	down, downErr := c.Decrement("n", 100)
	if up != 15 || down != 0 {
		return fmt.Errorf("15 is %d, 0 is %d", up, down)
	}
	return all(is(missing, memcache.ErrCacheMiss), set, upErr, downErr)
}

func cas(c *memcache.Client) error {
	if err := c.Set(item("k", "a")); err != nil {
		return err
	}
	one, err := c.Get("k")
	if err != nil {
		return err
	}
	other, err := c.Get("k")
	if err != nil {
		return err
	}
	one.Value, other.Value = []byte("one"), []byte("other")
	return all(
		c.CompareAndSwap(one),
		is(c.CompareAndSwap(other), memcache.ErrCASConflict),
		holds(c, "k", "one"),
	)
}

func times(c *memcache.Client) error {
	gone := item("gone", "x")
	gone.Expiration = -1
	stays := item("stays", "x")
	stays.Expiration = 1000
	err := all(c.Set(gone), c.Set(stays), holds(c, "stays", "x"), c.Touch("stays", 2000))
	_, miss := c.Get("gone")
	return all(err, is(miss, memcache.ErrCacheMiss), is(c.Touch("gone", 1), memcache.ErrCacheMiss))
}
