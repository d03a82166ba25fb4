// Package grpc turns values into messages of the RocketMQ 5 gRPC protocol (apache.rocketmq.v2) and back: names and limits
// checked with the protocol's own status codes, messages, deliveries, routes, assignments and Settings. It holds no state and
// touches no disk and no network; package server calls it.
//
// The stubs are those of the official Go module, so that one binary may link both this and the official client: a second
// generated copy would register the same descriptors twice and panic at start.
package grpc
