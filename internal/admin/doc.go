// Package admin is the broker's HTTP door for people and tools: topics, consumer groups, strands, single messages, health
// and metrics, as JSON on a loopback address. It decides nothing about messages: each request is checked, handed to the
// Backend, and its answer written.
//
// The way of a request: guard (Host, origin, content type, size) -> its handler (names checked, call of the Backend) ->
// reply or problem. Nothing is changed by GET or HEAD. The same package holds the Client that the command line uses, so
// that both ends share the words of api.go.
//
// Without access control the listener is the trust line: whoever can open a loopback connection may do everything here.
// Hence a listener on another address is refused, and so is whatever a browser sends from another site.
package admin
