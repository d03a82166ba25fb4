package embedded

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/keystrand/keystrand"
)

// DialOptions of a remote engine. The zero value works on loopback.
type DialOptions struct {
	// AdminURL is the broker's HTTP address, e.g. "http://127.0.0.1:8088". Without it Admin answers ErrRejected.
	AdminURL string
	// TLS turns encryption on; the certificate is checked as the config says. Nil: plaintext.
	TLS *tls.Config
	// CallTimeout bounds each call but Receive; default 10 s. Then the outcome is unknown.
	CallTimeout time.Duration
	// Dialer opens connections; default the net package's. For proxies and tests.
	Dialer func(ctx context.Context, address string) (net.Conn, error)
}

// Remote is a broker in another process.
type Remote struct {
	conn    *grpc.ClientConn
	stub    v2.MessagingServiceClient
	options DialOptions
}

var _ keystrand.Engine = (*Remote)(nil)

// dialTimeout bounds Dial when ctx has no deadline.
const dialTimeout = 10 * time.Second

// Dial connects to the broker at endpoint (host:port of its gRPC address), and returns when the connection stands. Later
// breaks heal by themselves. ctx bounds the dialling only; without a deadline it may take 10 s.
func Dial(ctx context.Context, endpoint string, options ...DialOptions) (*Remote, error) {
	if len(options) > 1 {
		return nil, fmt.Errorf("dial %s: %d DialOptions, one is enough: %w", endpoint, len(options), keystrand.ErrRejected)
	}
	var o DialOptions
	if len(options) == 1 {
		o = options[0]
	}
	if o.CallTimeout <= 0 {
		o.CallTimeout = 10 * time.Second
	}
	conn, err := grpc.NewClient("passthrough:///"+endpoint, grpcOptions(o)...)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w: %w", endpoint, err, keystrand.ErrRejected)
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn.Connect()
	for state := conn.GetState(); state != connectivity.Ready; state = conn.GetState() {
		if !conn.WaitForStateChange(ctx, state) {
			_ = conn.Close() // it never stood
			return nil, fmt.Errorf("dial %s: no broker answers there (last state %v); start one with `keystrand serve`: %w", endpoint, state, keystrand.ErrRetryLater)
		}
	}
	return &Remote{conn: conn, stub: v2.NewMessagingServiceClient(conn), options: o}, nil
}

// maxMessageBytes bounds an answer: 32 messages of 4 MiB and what surrounds them.
const maxMessageBytes = 160 << 20

func grpcOptions(o DialOptions) []grpc.DialOption {
	security := insecure.NewCredentials()
	if o.TLS != nil {
		security = credentials.NewTLS(o.TLS)
	}
	out := []grpc.DialOption{
		grpc.WithTransportCredentials(security),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes), grpc.MaxCallSendMsgSize(maxMessageBytes)),
		grpc.WithConnectParams(grpc.ConnectParams{
			// A broker that restarts is back within a second: ask often, the cost on loopback and in a rack is nothing.
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: 3 * time.Second,
		}),
		// A peer that is gone without a word is noticed in 40 s (N02).
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second, PermitWithoutStream: true}),
	}
	if o.Dialer != nil {
		out = append(out, grpc.WithContextDialer(o.Dialer))
	}
	return out
}

// header is the metadata of a client's calls. Read only: calls share it.
func header(clientID string) metadata.MD {
	return metadata.Pairs("x-mq-client-id", clientID, "x-mq-language", "KEYSTRAND", "x-mq-client-version", "1.0.0", "x-mq-protocol", "v2")
}

// Producer opens a sender. Producers share the engine's connection.
func (r *Remote) Producer(ctx context.Context) (keystrand.Producer, error) {
	return &remoteProducer{remote: r, header: header(randomID("keystrand-producer-")), open: newOpening(ctx)}, nil
}

// Consumer opens a receiver; a topic that does not exist is refused.
func (r *Remote) Consumer(ctx context.Context, o keystrand.ConsumerOptions) (keystrand.Consumer, error) {
	o, err := completeConsumer(o, minLease)
	if err != nil {
		return nil, err
	}
	c := &remoteConsumer{
		remote: r, options: o, header: header(o.ClientID), open: newOpening(ctx),
		group: &v2.Resource{Name: o.Group}, topic: &v2.Resource{Name: o.Topic}, filter: filterOf(o.Filter),
	}
	limited, cancel := context.WithTimeout(ctx, r.options.CallTimeout)
	defer cancel()
	answer, err := r.stub.QueryRoute(metadata.NewOutgoingContext(limited, c.header), &v2.QueryRouteRequest{Topic: c.topic, Endpoints: r.endpoints()})
	if err := errorOf(answer.GetStatus(), err, keystrand.ErrRetryLater); err != nil {
		return nil, fmt.Errorf("consumer of topic %q in group %q: %w", o.Topic, o.Group, err)
	}
	return c, nil
}

// endpoints repeats where this client dialled, as the route query of the protocol asks.
func (r *Remote) endpoints() *v2.Endpoints {
	host, port, err := net.SplitHostPort(trimScheme(r.conn.Target()))
	var number int
	if _, scan := fmt.Sscan(port, &number); err != nil || scan != nil {
		return &v2.Endpoints{}
	}
	scheme := v2.AddressScheme_DOMAIN_NAME
	if ip := net.ParseIP(host); ip != nil {
		if scheme = v2.AddressScheme_IPv6; ip.To4() != nil {
			scheme = v2.AddressScheme_IPv4
		}
	}
	return &v2.Endpoints{Scheme: scheme, Addresses: []*v2.Address{{Host: host, Port: int32(number)}}}
}

func trimScheme(target string) string {
	const scheme = "passthrough:///"
	if len(target) > len(scheme) && target[:len(scheme)] == scheme {
		return target[len(scheme):]
	}
	return target
}

func filterOf(expression string) *v2.FilterExpression {
	if expression == "" {
		expression = "*"
	}
	return &v2.FilterExpression{Type: v2.FilterType_TAG, Expression: expression}
}

// Admin manages topics and groups over the broker's HTTP address.
func (r *Remote) Admin() keystrand.Admin { return &remoteAdmin{base: r.options.AdminURL} }

// Guarantees states what the engine keeps.
func (r *Remote) Guarantees() keystrand.Guarantees {
	g := guarantees
	g.Engine = "keystrand, over gRPC"
	return g
}

// Close ends the connection and every call that is out. Safe twice.
func (r *Remote) Close() error {
	if err := r.conn.Close(); err != nil && status.Code(err) != codes.Canceled { // canceled: it was closed before
		return fmt.Errorf("close the connection to %s: %w", trimScheme(r.conn.Target()), err)
	}
	return nil
}
