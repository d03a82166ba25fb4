package broker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/broker"
)

func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	b, err := broker.Open(broker.Options{
		DataDir: "keystrand-example-data",
		Topics:  []keystrand.TopicSpec{{Name: "orders", Type: keystrand.TopicFIFO}},
		Groups:  []keystrand.GroupSpec{{Name: "billing", Ordered: true}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- b.Run(ctx, func() { close(ready) }) }()
	<-ready
	if _, err := b.Send(ctx, "orders", []keystrand.Message{{MessageGroup: "order-1", Body: []byte("created")}}, ""); err != nil {
		fmt.Println(err)
	}
	got, err := b.Receive(ctx, broker.Receive{Group: "billing", Topic: "orders", Max: 1, Wait: time.Second, Lease: 30 * time.Second})
	if err == nil && len(got) == 1 {
		err = b.Ack(ctx, "billing", "orders", got[0].ReceiptHandle)[0]
	}
	stop()
	fmt.Println(errors.Join(err, <-done, b.Close()))
}

func open(t *testing.T, change func(*broker.Options)) *broker.Broker {
	t.Helper()
	o := broker.Options{
		DataDir: t.TempDir(), GRPCAddr: "127.0.0.1:0", HTTPAddr: "127.0.0.1:0",
		Topics: []keystrand.TopicSpec{{Name: "orders", Type: keystrand.TopicFIFO}},
		Groups: []keystrand.GroupSpec{{Name: "billing", Ordered: true}},
	}
	if change != nil {
		change(&o)
	}
	b, err := broker.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- b.Run(ctx, func() { close(ready) }) }()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-done, b.Close(), b.Close()); err != nil {
			t.Error(err)
		}
	})
	<-ready
	return b
}

func TestBrokerServesWhatItWasToldTo(t *testing.T) {
	b := open(t, nil)
	a := b.Addresses()
	if !strings.HasPrefix(a.GRPC, "127.0.0.1:") || !strings.HasPrefix(a.HTTP, "127.0.0.1:") || strings.HasSuffix(a.GRPC, ":0") {
		t.Fatalf("addresses %+v", a)
	}
	if len(b.Topics()) != 1 || len(b.Groups()) != 1 {
		t.Fatalf("topics %v groups %v", b.Topics(), b.Groups())
	}
}

func TestTwoBrokersCannotShareADataDirectory(t *testing.T) {
	dir := t.TempDir()
	open(t, func(o *broker.Options) { o.DataDir = dir })
	if b, err := broker.Open(broker.Options{DataDir: dir}); err == nil {
		t.Fatal(errors.Join(errors.New("D24: the second open succeeded"), b.Close()))
	} else if !errors.Is(err, keystrand.ErrLocked) || !errors.Is(err, keystrand.ErrRetryLater) || strings.Count(err.Error(), dir) != 1 {
		t.Fatalf("the error does not say, once, what holds the directory: %v", err)
	}
	open(t, nil) // another directory serves beside it
}

func TestNonLoopbackAddressIsRefused(t *testing.T) {
	for _, o := range []broker.Options{{GRPCAddr: "0.0.0.0:0"}, {HTTPAddr: "0.0.0.0:0"}, {GRPCAddr: ":0"}} {
		o.DataDir = t.TempDir()
		if b, err := broker.Open(o); err == nil {
			t.Errorf("SEC-01: %+v was opened: %v", o, b.Close())
		} else if !errors.Is(err, keystrand.ErrRejected) {
			t.Errorf("%+v: got %v, want ErrRejected", o, err)
		}
	}
	err := broker.Options{DataDir: "x", GRPCAddr: "0.0.0.0:0", HTTPAddr: "nonsense"}.Validate()
	if err == nil || !strings.Contains(err.Error(), "GRPCAddr") || !strings.Contains(err.Error(), "HTTPAddr") {
		t.Errorf("got %v, want both addresses", err)
	}
}

func TestPortInUseIsForLaterAndTheDirectoryIsGivenBack(t *testing.T) {
	first := open(t, nil).Addresses()
	dir := t.TempDir()
	_, err := broker.Open(broker.Options{DataDir: dir, GRPCAddr: first.GRPC, HTTPAddr: first.HTTP})
	if !errors.Is(err, keystrand.ErrRetryLater) || errors.Is(err, keystrand.ErrRejected) {
		t.Fatalf("got %v, want ErrRetryLater", err)
	}
	for _, port := range []string{first.GRPC, first.HTTP} {
		if !strings.Contains(err.Error(), port) {
			t.Errorf("%v does not name %s", err, port)
		}
	}
	open(t, func(o *broker.Options) { o.DataDir = dir })
}

func TestAddressThatCannotBeIsRejected(t *testing.T) {
	_, err := broker.Open(broker.Options{DataDir: t.TempDir(), GRPCAddr: "127.0.0.1:70000", HTTPAddr: "127.0.0.1:0"})
	if !errors.Is(err, keystrand.ErrRejected) || !strings.Contains(err.Error(), "GRPCAddr") {
		t.Errorf("got %v, want ErrRejected", err)
	}
}

func TestDirectoryThatCannotBeIsRejected(t *testing.T) {
	file := filepath.Join(t.TempDir(), "afile")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := broker.Open(broker.Options{DataDir: file}); !errors.Is(err, keystrand.ErrRejected) || !strings.Contains(err.Error(), "is a file") {
		t.Errorf("got %v, want ErrRejected", err)
	}
}

func TestTopicOfOtherSettingsSaysWhatToDo(t *testing.T) {
	for name, change := range map[string]func(*broker.Options){
		"topic": func(o *broker.Options) { o.Topics[0].Type = keystrand.TopicNormal },
		"group": func(o *broker.Options) { o.Groups[0].Ordered = false },
	} {
		dir := t.TempDir()
		o := broker.Options{DataDir: dir, Topics: []keystrand.TopicSpec{{Name: "orders", Type: keystrand.TopicFIFO}}, Groups: []keystrand.GroupSpec{{Name: "billing", Ordered: true}}}
		for _, again := range []bool{false, true} {
			if again {
				change(&o)
			}
			b, err := broker.Open(o)
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			err = errors.Join(b.Run(ctx, stop), b.Close())
			stop()
			if again != errors.Is(err, keystrand.ErrExists) || again != strings.Contains(fmt.Sprint(err), "use its settings or another name") {
				t.Errorf("%s, again %v: got %v", name, again, err)
			}
		}
	}
}

func TestOptionsReportAllFaultsAtOnce(t *testing.T) {
	err := broker.Options{SyncInterval: -1, SnapshotEvery: -1}.Validate()
	if !errors.Is(err, keystrand.ErrRejected) {
		t.Fatalf("got %v, want ErrRejected", err)
	}
	for _, field := range []string{"DataDir", "SyncInterval", "SnapshotEvery"} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("%v does not name %s", err, field)
		}
	}
}
