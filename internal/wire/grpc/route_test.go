package grpc

import (
	"net"
	"testing"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/keystrand/keystrand"
)

func TestRoutesEchoTheEndpointsThatWereDialled(t *testing.T) {
	t.Parallel()
	listener := EndpointsOf(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8081})
	dialled := &v2.Endpoints{Scheme: v2.AddressScheme_DOMAIN_NAME, Addresses: []*v2.Address{{Host: "broker.example", Port: 9999}}}
	for name, c := range map[string]struct {
		asked, want *v2.Endpoints
		code        v2.Code
	}{
		"dialled":  {dialled, dialled, 0},
		"none":     {nil, listener, 0},
		"empty":    {&v2.Endpoints{}, listener, 0},
		"no port":  {&v2.Endpoints{Addresses: []*v2.Address{{Host: "h"}}}, nil, 40001},
		"no host":  {&v2.Endpoints{Addresses: []*v2.Address{{Port: 1}}}, nil, 40001},
		"too many": {&v2.Endpoints{Addresses: make([]*v2.Address, MaxEndpointAddresses+1)}, nil, 40001},
	} {
		broker, fault := Broker("b", c.asked, listener)
		if fault.GetCode() != c.code || !cmp.Equal(broker.GetEndpoints(), c.want, protocmp.Transform()) || broker.GetId() != 0 {
			t.Errorf("%s: got %v and %v, want %v and code %d", name, broker, fault, c.want, c.code)
		}
	}
	if got := EndpointsOf(&net.TCPAddr{IP: net.IPv6loopback, Port: 1}).GetScheme(); got != v2.AddressScheme_IPv6 {
		t.Errorf("::1: got %v", got)
	}
}

func TestRoutesListEveryQueueInOrder(t *testing.T) {
	t.Parallel()
	topic, broker := &v2.Resource{Name: "orders"}, &v2.Broker{Name: "b"}
	for kind, want := range map[keystrand.TopicType]v2.MessageType{keystrand.TopicFIFO: v2.MessageType_FIFO, keystrand.TopicNormal: v2.MessageType_NORMAL} {
		for i, q := range Route(topic, kind, 3, broker) {
			if q.GetId() != int32(i) || q.GetPermission() != v2.Permission_READ_WRITE || !cmp.Equal(q.GetAcceptMessageTypes(), []v2.MessageType{want}) {
				t.Errorf("queue %d: got %v", i, q)
			}
		}
	}
}

func TestAssignmentsAreFewAndStable(t *testing.T) {
	t.Parallel()
	topic, broker := &v2.Resource{Name: "orders"}, &v2.Broker{Name: "b"}
	for queues, want := range map[int32]int{1: 1, 4: 4, 8: 8, 9: 8, 1024: 8} {
		got := Assignments(topic, queues, broker)
		if len(got) != want {
			t.Errorf("%d queues: got %d entries, want %d", queues, len(got), want)
		}
		if diff := cmp.Diff(got, Assignments(topic, queues, broker), protocmp.Transform()); diff != "" {
			t.Errorf("%d queues: two calls differ:\n%s", queues, diff)
		}
	}
}
