package broker_test

import (
	"context"
	"errors"
	"fmt"
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
	} else if !strings.Contains(err.Error(), "lock") {
		t.Fatalf("the error does not say what holds the directory: %v", err)
	}
}

func TestNonLoopbackAddressIsRefused(t *testing.T) {
	for _, o := range []broker.Options{{GRPCAddr: "0.0.0.0:0"}, {HTTPAddr: "0.0.0.0:0"}, {GRPCAddr: ":0"}} {
		o.DataDir = t.TempDir()
		if b, err := broker.Open(o); err == nil {
			t.Errorf("SEC-01: %+v was opened: %v", o, b.Close())
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
