// Package server is the broker's edge to RocketMQ 5 clients: it takes connections, TLS and plaintext on one port, and
// answers their calls from the sequencer. One file per call, named rpc_<call>.go.
//
// A call's way: a connection is accepted (listener.go), its first byte decides between TLS and plaintext (handshake.go), its
// frames are counted (frames.go), the call is admitted (admit.go), its client is noted (clients.go), its request is checked
// and converted (package wire/grpc), and the sequencer does the work.
//
// Nothing essential lives in a connection or in the Settings a client sent: after a restart of the broker clients come back
// without them, some for minutes. What a group is comes from the group; what kind a client is from its calls.
package server
