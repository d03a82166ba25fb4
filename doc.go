// Package keystrand holds the shared words of Keystrand, end-to-end ordered messaging: a message group (an order, an
// account, a device) is a strand whose messages are produced, stored, delivered and applied one after the other, and no
// other strand ever waits for it.
//
// The packages follow a message's way: outbox (produce), broker (store), consumer (deliver), inbox (apply). They meet
// in the types of this package: [Message], [Delivery], [Event], [Engine] and the five error classes of errors.go.
package keystrand
