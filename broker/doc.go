// Package broker is the Keystrand broker as a library: ordered messaging per message group in one data directory, served
// in-process and, when asked, to the official Apache RocketMQ 5 clients over gRPC and to tools over HTTP.
//
// A message's life: Send appends it to the one log and returns when it is durable; from then on each consumer group's
// strand of its message group may hand it out; Receive leases it with a fencing token; Ack finishes it, durably, and the
// next message of its message group becomes ready. Other message groups never wait for it.
//
// It does not replicate: past one machine the engine is Apache RocketMQ or Kafka.
//
// All methods of [Broker] may be called from any goroutine between Open and Close; Run must be running for the calls
// that change something to return.
package broker
