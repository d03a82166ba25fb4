package grpc

import (
	"net"
	"strconv"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"

	"github.com/keystrand/keystrand"
)

// Route lists the topic's queues for a route query. The order and every field stay the same from call to call: clients
// compare lists to see a change.
func Route(topic *v2.Resource, kind keystrand.TopicType, queues int32, broker *v2.Broker) []*v2.MessageQueue {
	types := []v2.MessageType{MessageTypeOf(kind)}
	list := make([]*v2.MessageQueue, queues)
	for i := range list {
		list[i] = &v2.MessageQueue{
			Topic: topic, Id: int32(i), Permission: v2.Permission_READ_WRITE, Broker: broker, AcceptMessageTypes: types,
		}
	}
	return list
}

// Assignments lists what a push consumer polls: min(queues, MaxAssignments) entries, the same for every client and every
// call, each serving messages of all queues. A changed entry would make the client drop its process queue.
func Assignments(topic *v2.Resource, queues int32, broker *v2.Broker) []*v2.Assignment {
	list := make([]*v2.Assignment, min(queues, MaxAssignments))
	for i := range list {
		list[i] = &v2.Assignment{MessageQueue: &v2.MessageQueue{
			Topic: topic, Id: int32(i), Permission: v2.Permission_READ_WRITE, Broker: broker,
		}}
	}
	return list
}

// MessageTypeOf is what a topic of that type takes.
func MessageTypeOf(kind keystrand.TopicType) v2.MessageType {
	if kind == keystrand.TopicFIFO {
		return v2.MessageType_FIFO
	}
	return v2.MessageType_NORMAL
}

// Broker describes this broker at the endpoints that the client dialled, so that routes work through any name, tunnel or
// container that the client came by; fallback is used when the request names none. The id is 0, the master: clients drop
// every other.
func Broker(name string, asked, fallback *v2.Endpoints) (*v2.Broker, *v2.Status) {
	endpoints := asked
	if len(asked.GetAddresses()) == 0 {
		endpoints = fallback
	}
	if n := len(endpoints.GetAddresses()); n > MaxEndpointAddresses {
		return nil, NewStatus(v2.Code_ILLEGAL_ACCESS_POINT, strconv.Itoa(n)+" addresses in the endpoints are too many")
	}
	for _, address := range endpoints.GetAddresses() {
		if host := address.GetHost(); host == "" || len(host) > MaxClientIDBytes || hasControl(host) || address.GetPort() < 1 || address.GetPort() > 65535 {
			return nil, NewStatus(v2.Code_ILLEGAL_ACCESS_POINT, "an address of the endpoints is not a host and port")
		}
	}
	return &v2.Broker{Name: name, Id: 0, Endpoints: endpoints}, nil
}

// EndpointsOf describes a listener's address.
func EndpointsOf(addr net.Addr) *v2.Endpoints {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return &v2.Endpoints{}
	}
	scheme := v2.AddressScheme_IPv6
	if tcp.IP.To4() != nil {
		scheme = v2.AddressScheme_IPv4
	}
	return &v2.Endpoints{Scheme: scheme, Addresses: []*v2.Address{{Host: tcp.IP.String(), Port: int32(tcp.Port)}}}
}
