// Asynq and go-redis at work: queues with priorities, retries, schedules, unique tasks, groups, the
// inspector; pipelines, WATCH, scripts, pub/sub.
//
// asynq HOST:PORT. The server is emptied between the checks.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

const patience = 60 * time.Second

var address = os.Args[1]

type check struct {
	title string
	run   func(r *room) string
}

// What one check opens, and closes behind it.
type room struct {
	client    *asynq.Client
	inspector *asynq.Inspector
	redis     *redis.Client
	closers   []func()
}

func newRoom() *room {
	options := asynq.RedisClientOpt{Addr: address}
	r := &room{
		client:    asynq.NewClient(options),
		inspector: asynq.NewInspector(options),
		redis:     redis.NewClient(&redis.Options{Addr: address}),
	}
	must(r.redis.FlushAll(context.Background()).Err())
	return r
}

func (r *room) close() {
	for _, closer := range slices.Backward(r.closers) {
		closer()
	}
	must(errors.Join(r.client.Close(), r.inspector.Close(), r.redis.Close()))
}

// Starts a server of tasks; quick, where the defaults would take seconds.
func (r *room) serve(config asynq.Config, handler asynq.HandlerFunc) *asynq.Server {
	config.LogLevel = asynq.FatalLevel
	config.DelayedTaskCheckInterval = 50 * time.Millisecond
	config.TaskCheckInterval = 50 * time.Millisecond
	config.ShutdownTimeout = 5 * time.Second
	if config.RetryDelayFunc == nil {
		config.RetryDelayFunc = func(int, error, *asynq.Task) time.Duration { return 20 * time.Millisecond }
	}
	server := asynq.NewServer(asynq.RedisClientOpt{Addr: address}, config)
	must(server.Start(handler))
	r.closers = append(r.closers, server.Shutdown)
	return server
}

func (r *room) add(kind string, payload string, options ...asynq.Option) *asynq.TaskInfo {
	info, err := r.client.Enqueue(asynq.NewTask(kind, []byte(payload)), options...)
	must(err)
	return info
}

func (r *room) queue(name string) *asynq.QueueInfo {
	info, err := r.inspector.GetQueueInfo(name)
	if errors.Is(err, asynq.ErrQueueNotFound) {
		return &asynq.QueueInfo{}
	}
	must(err)
	return info
}

func (r *room) state(id string) asynq.TaskState {
	info, err := r.inspector.GetTaskInfo("default", id)
	must(err)
	return info.State
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func equal[T any](found, expected T) {
	if f, e := fmt.Sprintf("%v", found), fmt.Sprintf("%v", expected); f != e {
		panic(fmt.Sprintf("%s is not %s", f, e))
	}
}

func until(what string, condition func() bool) {
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			panic(what + " did not come within " + patience.String())
		}
	}
}

// What handlers saw, in order.
type notes struct {
	sync.Mutex
	texts []string
}

func (n *notes) add(text string) {
	n.Lock()
	defer n.Unlock()
	n.texts = append(n.texts, text)
}

func (n *notes) all() []string {
	n.Lock()
	defer n.Unlock()
	return slices.Clone(n.texts)
}

func many(r *room) string {
	var seen notes
	var running, most atomic.Int64
	for number := range 500 {
		r.add("number", strconv.Itoa(number), asynq.Retention(time.Hour))
	}
	equal(r.queue("default").Pending, 500)
	handler := func(_ context.Context, task *asynq.Task) error {
		now := running.Add(1)
		defer running.Add(-1)
		for before := most.Load(); now > before && !most.CompareAndSwap(before, now); before = most.Load() {
		}
		seen.add(string(task.Payload()))
		_, err := task.ResultWriter().Write([]byte("did " + string(task.Payload())))
		return err
	}
	r.serve(asynq.Config{Concurrency: 10}, handler)
	r.serve(asynq.Config{Concurrency: 10}, handler)
	until("500 tasks", func() bool { return r.queue("default").Completed == 500 })
	texts := seen.all()
	slices.Sort(texts)
	equal(len(slices.Compact(texts)), 500)
	equal(len(seen.all()), 500)
	done, err := r.inspector.ListCompletedTasks("default", asynq.PageSize(30), asynq.Page(2))
	must(err)
	equal(len(done), 30)
	equal(string(done[0].Result), "did "+string(done[0].Payload))
	equal(r.queue("default").Processed, 500)
	return fmt.Sprintf("%d at once", most.Load())
}

func priorities(r *room) string {
	var seen notes
	for number := range 20 {
		r.add("task", fmt.Sprintf("low%d", number), asynq.Queue("low"))
		r.add("task", fmt.Sprintf("high%d", number), asynq.Queue("high"))
	}
	config := asynq.Config{Concurrency: 1, Queues: map[string]int{"high": 2, "low": 1}, StrictPriority: true}
	r.serve(config, func(_ context.Context, task *asynq.Task) error {
		seen.add(string(task.Payload()))
		return nil
	})
	until("the tasks", func() bool { return len(seen.all()) == 40 })
	equal(seen.all()[19], "high19")
	equal(seen.all()[20], "low0")
	return ""
}

func retries(r *room) string {
	var tries sync.Map
	again := r.add("again", "", asynq.MaxRetry(5), asynq.Retention(time.Hour))
	never := r.add("never", "", asynq.MaxRetry(2))
	skip := r.add("skip", "", asynq.MaxRetry(5))
	crash := r.add("crash", "", asynq.MaxRetry(0))
	r.serve(asynq.Config{Concurrency: 4}, func(ctx context.Context, task *asynq.Task) error {
		count, _ := tries.LoadOrStore(task.Type(), new(atomic.Int64))
		number := count.(*atomic.Int64).Add(1)
		switch {
		case task.Type() == "again" && number > 3:
			retried, _ := asynq.GetRetryCount(ctx)
			equal(retried, 3)
			return nil
		case task.Type() == "skip":
			return fmt.Errorf("no use: %w", asynq.SkipRetry)
		case task.Type() == "crash":
			panic("on purpose")
		}
		return fmt.Errorf("try %d", number)
	})
	until("the end of all tries", func() bool {
		info := r.queue("default")
		return info.Completed == 1 && info.Archived == 3
	})
	equal(r.state(again.ID), asynq.TaskStateCompleted)
	for _, info := range []*asynq.TaskInfo{never, skip, crash} {
		equal(r.state(info.ID), asynq.TaskStateArchived)
	}
	info, err := r.inspector.GetTaskInfo("default", never.ID)
	must(err)
	equal(info.LastErr, "try 3")
	must(r.inspector.RunTask("default", never.ID))
	until("one more try", func() bool {
		count, _ := tries.Load("never")
		return count.(*atomic.Int64).Load() == 4 && r.state(never.ID) == asynq.TaskStateArchived
	})
	removed, err := r.inspector.DeleteAllArchivedTasks("default")
	must(err)
	equal(removed, 3)
	return ""
}

func scheduled(r *room) string {
	var seen notes
	began := time.Now()
	// The forwarder counts in whole seconds.
	r.add("task", "second", asynq.ProcessIn(2*time.Second))
	r.add("task", "first", asynq.ProcessAt(began.Add(time.Second)))
	gone := r.add("task", "gone", asynq.ProcessIn(time.Hour))
	early := r.add("task", "early", asynq.ProcessIn(time.Hour))
	equal(r.queue("default").Scheduled, 4)
	list, err := r.inspector.ListScheduledTasks("default")
	must(err)
	equal(string(list[0].Payload), "first")
	// One at a time: where it serves late, both are due at once.
	r.serve(asynq.Config{Concurrency: 1}, func(_ context.Context, task *asynq.Task) error {
		seen.add(string(task.Payload()))
		return nil
	})
	must(r.inspector.DeleteTask("default", gone.ID))
	must(r.inspector.RunTask("default", early.ID))
	until("the tasks", func() bool { return len(seen.all()) == 3 })
	// How long it takes until a server serves is not said: `first` may be due by then.
	var planned []string
	for _, payload := range seen.all() {
		if payload != "early" {
			planned = append(planned, payload)
		}
	}
	equal(planned, []string{"first", "second"})
	if took := time.Since(began); took < time.Second {
		panic(fmt.Sprintf("after %v already", took))
	}
	return ""
}

func unique(r *room) string {
	task := asynq.NewTask("task", []byte("same"))
	_, err := r.client.Enqueue(task, asynq.Unique(time.Hour))
	must(err)
	_, err = r.client.Enqueue(task, asynq.Unique(time.Hour))
	equal(errors.Is(err, asynq.ErrDuplicateTask), true)
	r.add("task", "a", asynq.TaskID("named"))
	_, err = r.client.Enqueue(asynq.NewTask("task", []byte("b")), asynq.TaskID("named"))
	equal(errors.Is(err, asynq.ErrTaskIDConflict), true)
	equal(r.queue("default").Pending, 2)
	r.serve(asynq.Config{Concurrency: 2}, func(context.Context, *asynq.Task) error { return nil })
	until("an empty queue", func() bool { return r.queue("default").Size == 0 })
	_, err = r.client.Enqueue(task, asynq.Unique(time.Hour), asynq.ProcessIn(time.Hour))
	must(err)
	keys, err := r.redis.Keys(context.Background(), "asynq:{default}:unique:*").Result()
	must(err)
	equal(len(keys), 1)
	ttl := r.redis.TTL(context.Background(), keys[0]).Val()
	equal(ttl > 59*time.Minute, true)
	return ""
}

func periodic(r *room) string {
	var ticks atomic.Int64
	scheduler := asynq.NewScheduler(asynq.RedisClientOpt{Addr: address}, &asynq.SchedulerOpts{
		LogLevel: asynq.FatalLevel,
	})
	entry, err := scheduler.Register("@every 1s", asynq.NewTask("tick", nil))
	must(err)
	must(scheduler.Start())
	r.closers = append(r.closers, scheduler.Shutdown)
	r.serve(asynq.Config{Concurrency: 1}, func(context.Context, *asynq.Task) error {
		ticks.Add(1)
		return nil
	})
	until("two ticks", func() bool { return ticks.Load() >= 2 })
	until("the entry", func() bool {
		entries, err := r.inspector.SchedulerEntries()
		return err == nil && len(entries) == 1 && entries[0].ID == entry
	})
	events, err := r.inspector.ListSchedulerEnqueueEvents(entry)
	must(err)
	equal(len(events) >= 2, true)
	return ""
}

func inspected(r *room) string {
	var seen notes
	for number := range 10 {
		r.add("task", strconv.Itoa(number))
	}
	must(r.inspector.PauseQueue("default"))
	r.serve(asynq.Config{Concurrency: 3}, func(ctx context.Context, task *asynq.Task) error {
		if string(task.Payload()) == "cancelled" {
			seen.add("begun")
			<-ctx.Done()
			seen.add(ctx.Err().Error())
			return ctx.Err()
		}
		seen.add(string(task.Payload()))
		return nil
	})
	info := r.queue("default")
	equal([]any{info.Paused, info.Pending, info.Active}, []any{true, 10, 0})
	first, err := r.inspector.ListPendingTasks("default", asynq.PageSize(4))
	must(err)
	equal(len(first), 4)
	must(r.inspector.ArchiveTask("default", first[0].ID))
	archived, err := r.inspector.ArchiveAllPendingTasks("default")
	must(err)
	equal(archived, 9)
	run, err := r.inspector.RunAllArchivedTasks("default")
	must(err)
	equal(run, 10)
	equal(len(seen.all()), 0)
	must(r.inspector.UnpauseQueue("default"))
	until("the tasks", func() bool { return len(seen.all()) == 10 })
	long := r.add("task", "cancelled", asynq.MaxRetry(0))
	until("its beginning", func() bool { return slices.Contains(seen.all(), "begun") })
	until("the worker's report", func() bool {
		servers, err := r.inspector.Servers()
		must(err)
		return len(servers) == 1 && servers[0].Concurrency == 3
	})
	// The message is published: it is lost where the worker does not listen yet.
	until("the cancelling", func() bool {
		must(r.inspector.CancelProcessing(long.ID))
		return slices.Contains(seen.all(), "context canceled")
	})
	until("its end", func() bool { return r.state(long.ID) == asynq.TaskStateArchived })
	history, err := r.inspector.History("default", 2)
	must(err)
	equal([]int{history[0].Processed, history[0].Failed}, []int{11, 1})
	must(r.inspector.DeleteQueue("default", true))
	queues, err := r.inspector.Queues()
	must(err)
	equal(len(queues), 0)
	return ""
}

func groups(r *room) string {
	var seen notes
	config := asynq.Config{
		Concurrency:      2,
		GroupGracePeriod: time.Second,
		GroupMaxSize:     10,
		GroupMaxDelay:    5 * time.Second,
		GroupAggregator: asynq.GroupAggregatorFunc(func(group string, tasks []*asynq.Task) *asynq.Task {
			return asynq.NewTask("together", []byte(fmt.Sprintf("%s:%d", group, len(tasks))))
		}),
	}
	for number := range 25 {
		r.add("part", strconv.Itoa(number), asynq.Group("mails"))
	}
	groups, err := r.inspector.Groups("default")
	must(err)
	equal(groups[0].Size, 25)
	r.serve(config, func(_ context.Context, task *asynq.Task) error {
		seen.add(string(task.Payload()))
		return nil
	})
	until("three bundles", func() bool { return len(seen.all()) == 3 })
	texts := seen.all()
	slices.Sort(texts)
	equal(texts, []string{"mails:10", "mails:10", "mails:5"})
	return ""
}

func timeouts(r *room) string {
	var seen notes
	slow := r.add("slow", "", asynq.Timeout(time.Second), asynq.MaxRetry(0))
	server := r.serve(asynq.Config{Concurrency: 1}, func(ctx context.Context, task *asynq.Task) error {
		if task.Type() == "slow" {
			<-ctx.Done()
			return ctx.Err()
		}
		seen.add("done")
		return nil
	})
	until("the end of its time", func() bool { return r.state(slow.ID) == asynq.TaskStateArchived })
	r.add("quick", "")
	until("the next", func() bool { return len(seen.all()) == 1 })
	server.Stop()
	waits := r.add("quick", "")
	equal(r.state(waits.ID), asynq.TaskStatePending)
	return ""
}

func goRedis(r *room) string {
	ctx := context.Background()
	pipe := r.redis.Pipeline()
	for number := range 1000 {
		pipe.Set(ctx, fmt.Sprintf("key:%d", number), number, 0)
	}
	_, err := pipe.Exec(ctx)
	must(err)
	found := 0
	for keys := r.redis.Scan(ctx, 0, "key:*", 100).Iterator(); keys.Next(ctx); {
		found++
	}
	equal(found, 1000)
	var group sync.WaitGroup
	var conflicts atomic.Int64
	for range 6 {
		group.Go(func() {
			for range 30 {
				for {
					err := r.redis.Watch(ctx, func(tx *redis.Tx) error {
						count, err := tx.Get(ctx, "count").Int()
						if err != nil && !errors.Is(err, redis.Nil) {
							return err
						}
						_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
							pipe.Set(ctx, "count", count+1, 0)
							pipe.RPush(ctx, "counts", count+1)
							return nil
						})
						return err
					}, "count")
					if !errors.Is(err, redis.TxFailedErr) {
						must(err)
						break
					}
					conflicts.Add(1)
				}
			}
		})
	}
	group.Wait()
	equal(r.redis.Get(ctx, "count").Val(), "180")
	equal(r.redis.LLen(ctx, "counts").Val(), 180)
	script := redis.NewScript(`local sum = 0
		for _, key in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do sum = sum + tonumber(key) end
		redis.call('SET', KEYS[1] .. ':sum', sum) return {sum, redis.call('TYPE', KEYS[1]).ok}`)
	equal(fmt.Sprint(script.Run(ctx, r.redis, []string{"counts"}).Val()), "[16290 list]")
	must(r.redis.ScriptFlush(ctx).Err())
	equal(fmt.Sprint(script.Run(ctx, r.redis, []string{"counts"}).Val()), "[16290 list]")
	equal(r.redis.Get(ctx, "counts:sum").Val(), "16290")
	listener := r.redis.Subscribe(ctx, "news")
	defer listener.Close()
	_, err = listener.Receive(ctx)
	must(err)
	for number := range 100 {
		must(r.redis.Publish(ctx, "news", number).Err())
	}
	for number := range 100 {
		message := <-listener.Channel()
		equal(message.Payload, strconv.Itoa(number))
	}
	return fmt.Sprintf("%d conflicts", conflicts.Load())
}

func run(c check) (failed bool) {
	began := time.Now()
	defer func() {
		if fault := recover(); fault != nil {
			failed = true
			fmt.Printf("FAILED asynq: %s\n%v\n%s", c.title, fault, debug.Stack())
		}
	}()
	r := newRoom()
	defer r.close()
	told := c.run(r)
	if told != "" {
		told = " (" + told + ")"
	}
	fmt.Printf("ok     asynq: %s%s, %.1f s\n", c.title, told, time.Since(began).Seconds())
	return false
}

func main() {
	checks := []check{
		{"500 tasks by two servers of ten; each runs once, results are kept", many},
		{"queues of strict priority", priorities},
		{"retries, archived tasks, one that panics", retries},
		{"scheduled tasks come in order and not too early; run now, deleted", scheduled},
		{"unique tasks and named tasks", unique},
		{"periodic tasks", periodic},
		{"the inspector: pause, pages, archive, cancel, history, delete", inspected},
		{"groups: 25 tasks in bundles of ten at most", groups},
		{"a task that takes too long; a server that stops", timeouts},
		{"go-redis: pipelines, WATCH, scripts, pub/sub", goRedis},
	}
	failed := 0
	for _, c := range checks {
		if run(c) {
			failed++
		}
	}
	fmt.Printf("%d passed, %d failed\n", len(checks)-failed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}
