package sdk

import (
	"context"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"github.com/keystrand/keystrand/internal/history"
)

// unary records sends, acks, reported failures and changed leases around the call.
func (t *Tap) unary(ctx context.Context, method string, in, out any, conn *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	invoke := func() error {
		var p peer.Peer
		err := call(ctx, method, in, out, conn, append(opts, grpc.Peer(&p))...)
		t.count(&p)
		return err
	}
	p, err := t.client(ctx)
	if err != nil {
		return err
	}
	w := p.take()
	defer p.give(w)
	switch in := in.(type) {
	case *v2.SendMessageRequest:
		return t.send(w, in, out.(*v2.SendMessageResponse), invoke)
	case *v2.AckMessageRequest:
		return t.ack(w, in, out.(*v2.AckMessageResponse), invoke)
	case *v2.ForwardMessageToDeadLetterQueueRequest:
		return t.about(in.GetReceiptHandle(), w.Nack, out.(*v2.ForwardMessageToDeadLetterQueueResponse), invoke)
	case *v2.ChangeInvisibleDurationRequest:
		renew := func(d history.Delivery) *history.Operation { return w.Renew(d, in.GetInvisibleDuration().AsDuration()) }
		return t.about(in.GetReceiptHandle(), renew, out.(*v2.ChangeInvisibleDurationResponse), invoke)
	}
	return invoke()
}

func (t *Tap) count(p *peer.Peer) {
	switch {
	case p.AuthInfo == nil: // it was not answered
	case p.AuthInfo.AuthType() == "tls":
		t.tls.Add(1)
	default:
		t.plain.Add(1)
	}
}

// send records one attempt of a send; each repeat that the SDK makes is one more.
func (t *Tap) send(w *history.Worker, in *v2.SendMessageRequest, out *v2.SendMessageResponse, invoke func() error) error {
	m := in.GetMessages()[0]
	sent := history.Message{Topic: m.GetTopic().GetName(), Key: m.GetSystemProperties().GetMessageGroup(), ID: idOf(m), Sum: history.Sum(m.GetBody())}
	op := w.Send(sent)
	t.open.Add(1)
	err := invoke()
	t.open.Add(-1)
	end(op, err, out.GetStatus())
	if err == nil && out.GetStatus().GetCode() == v2.Code_OK {
		t.sent.Add(1)
		t.mu.Lock()
		t.answered[message{sent.Topic, sent.Key, sent.ID}] = out.GetEntries()[0].GetOffset()
		t.mu.Unlock()
	}
	return err
}

// ack records an ack by the status of its entry, which the SDK does not show.
func (t *Tap) ack(w *history.Worker, in *v2.AckMessageRequest, out *v2.AckMessageResponse, invoke func() error) error {
	if len(in.GetEntries()) != 1 {
		panic("the tap records one entry an ack, as all official clients send") // else the history would have holes
	}
	handle := in.GetEntries()[0].GetReceiptHandle()
	err := t.about(handle, w.Ack, out, invoke)
	if err == nil && out.GetStatus().GetCode() == v2.Code_OK {
		t.mu.Lock()
		delete(t.handles, handle)
		t.mu.Unlock()
	}
	return err
}

// about records a call about a receipt handle.
func (t *Tap) about(handle string, begin func(history.Delivery) *history.Operation, out interface{ GetStatus() *v2.Status }, invoke func() error) error {
	t.mu.Lock()
	h := t.handles[handle]
	t.mu.Unlock()
	if h == nil {
		return invoke() // of a message that was finished before, so nothing can come of it
	}
	op := begin(h.delivery)
	err := invoke()
	end(op, err, out.GetStatus())
	return err
}

// end gives an operation its outcome. Whatever broke in transport may have happened; "too many requests" is Keystrand's
// "surely not done", and the codes of a client's mistake mean that nothing was done.
func end(op *history.Operation, err error, status *v2.Status) {
	switch code := status.GetCode(); {
	case err != nil:
		op.Info(err.Error())
	case code == v2.Code_OK:
		op.OK()
	case code == v2.Code_TOO_MANY_REQUESTS, code >= v2.Code_BAD_REQUEST && code < v2.Code_INTERNAL_ERROR:
		op.Fail(status.GetMessage())
	default:
		op.Info(status.GetMessage())
	}
}

func idOf(m *v2.Message) history.ID {
	id, err := history.ParseID(m.GetUserProperties()[history.PropertyID])
	if err != nil {
		return history.ID{} // the judge says so
	}
	return id
}
