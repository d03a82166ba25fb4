package admin

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/keystrand/keystrand"
)

// DefaultServer is the URL of a broker on this machine with default settings.
const DefaultServer = "http://127.0.0.1:8088"

// maxAnswerBytes bounds what the client reads of one answer: 32 messages of 4 MiB as base64, and some room.
const maxAnswerBytes = 200 << 20

// Client calls the HTTP API of one broker. All methods may be called from any goroutine; a *Problem or an error of package
// keystrand's classes comes back.
type Client struct {
	base string
	http *http.Client
}

// NewClient makes a client of the broker at server, such as http://127.0.0.1:8088.
func NewClient(server string) (*Client, error) {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("server %q: %w: not a URL; write it as %s", server, keystrand.ErrRejected, DefaultServer)
	}
	transport := &http.Transport{DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext, MaxIdleConns: 4}
	return &Client{base: strings.TrimSuffix(server, "/"), http: &http.Client{Transport: transport}}, nil
}

// Close lets the idle connections go.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Topics lists the topics.
func (c *Client) Topics(ctx context.Context) ([]Topic, error) {
	list, err := get[List[Topic]](ctx, c, "/v1/topics")
	return list.Items, err
}

// Topic describes one.
func (c *Client) Topic(ctx context.Context, name string) (Topic, error) {
	return get[Topic](ctx, c, "/v1/topics/"+url.PathEscape(name))
}

// CreateTopic makes one; one that exists with the same settings is no error.
func (c *Client) CreateTopic(ctx context.Context, topic NewTopic) (Topic, error) {
	return post[Topic](ctx, c, "/v1/topics", topic)
}

// Groups lists the consumer groups.
func (c *Client) Groups(ctx context.Context) ([]Group, error) {
	list, err := get[List[Group]](ctx, c, "/v1/groups")
	return list.Items, err
}

// Group describes one.
func (c *Client) Group(ctx context.Context, name string) (Group, error) {
	return get[Group](ctx, c, "/v1/groups/"+url.PathEscape(name))
}

// CreateGroup makes one; one that exists with the same settings is no error.
func (c *Client) CreateGroup(ctx context.Context, group GroupSpec) (Group, error) {
	return post[Group](ctx, c, "/v1/groups", group)
}

// Lag tells how far a group is on each of its topics.
func (c *Client) Lag(ctx context.Context, group string) ([]GroupTopic, error) {
	list, err := get[List[GroupTopic]](ctx, c, "/v1/groups/"+url.PathEscape(group)+"/lag")
	return list.Items, err
}

// Explain tells why a strand does or does not move.
func (c *Client) Explain(ctx context.Context, s Strand) (Explanation, error) {
	query := url.Values{"group": {s.ConsumerGroup}, "topic": {s.Topic}, "key": {s.MessageGroup}}
	return get[Explanation](ctx, c, "/v1/explain?"+query.Encode())
}

// Park sets a strand aside; Resume lets it go on. Both tell how it stands then.
func (c *Client) Park(ctx context.Context, s Strand) (Explanation, error) {
	return post[Explanation](ctx, c, "/v1/park", s)
}

// Resume lets a parked strand go on.
func (c *Client) Resume(ctx context.Context, s Strand) (Explanation, error) {
	return post[Explanation](ctx, c, "/v1/resume", s)
}

// Send stores one message durably. On ErrUnknown repeat it with the same MessageID.
func (c *Client) Send(ctx context.Context, m NewMessage) (Receipt, error) {
	return post[Receipt](ctx, c, "/v1/send", m)
}

// Receive waits for messages; none in time is an empty answer.
func (c *Client) Receive(ctx context.Context, r Receive) ([]Delivery, error) {
	list, err := post[List[Delivery]](ctx, c, "/v1/receive", r)
	return list.Items, err
}

// Ack finishes deliveries; the errors of single ones are joined.
func (c *Client) Ack(ctx context.Context, a Ack) error {
	result, err := post[AckResult](ctx, c, "/v1/ack", a)
	errs := []error{err}
	for _, problem := range result.Results {
		if problem != nil {
			errs = append(errs, problem)
		}
	}
	return errors.Join(errs...)
}

func get[T any](ctx context.Context, c *Client, path string) (T, error) {
	return call[T](ctx, c, http.MethodGet, path, nil)
}

func post[T any](ctx context.Context, c *Client, path string, ask any) (T, error) {
	body, err := json.Marshal(ask)
	if err != nil {
		var none T
		return none, fmt.Errorf("encode request: %w", err)
	}
	return call[T](ctx, c, http.MethodPost, path, body)
}

func call[T any](ctx context.Context, c *Client, method, path string, body []byte) (answer T, err error) {
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return answer, fmt.Errorf("request %s: %w", path, err)
	}
	if method != http.MethodGet {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return answer, c.transportError(ctx, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes))
	if err != nil {
		return answer, c.transportError(ctx, err)
	}
	if response.StatusCode != http.StatusOK {
		return answer, readProblem(response.StatusCode, text, c.base)
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return answer, fmt.Errorf("%w: answer of %s is not JSON: %w; is a keystrand broker there?", keystrand.ErrUnknown, c.base, err)
	}
	return answer, nil
}

// transportError tells a request that surely did not arrive from one that may have.
func (c *Client) transportError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return fmt.Errorf("no broker answers at %s (%w): %w; start one with `keystrand serve`, or name another with --server or KEYSTRAND_SERVER", c.base, op.Err, keystrand.ErrRetryLater)
	}
	var cause *url.Error
	if errors.As(err, &cause) {
		err = cause.Err // the rest of its text is the address once more
	}
	if isNotHTTP(err) {
		return fmt.Errorf("what listens at %s does not speak HTTP as a broker's tools do (%w): %w; %s", c.base, err, keystrand.ErrRejected, nameHTTPAddr)
	}
	return fmt.Errorf("connection to %s broke (%w): %w; whether the request was carried out is not known; if it breaks each time, %s", c.base, err, keystrand.ErrUnknown, nameHTTPAddr)
}

const nameHTTPAddr = "name the broker's HTTP address (serve's http-addr, " + DefaultServer + "): its grpc-addr is for RocketMQ clients only"

// isNotHTTP tells an answer of something else, or of another scheme, from a connection that broke. net/http has words for it
// and no types.
func isNotHTTP(err error) bool {
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	text := err.Error()
	return errors.As(err, &certificate) || errors.As(err, &record) ||
		strings.Contains(text, "malformed HTTP") || strings.Contains(text, "HTTP response to HTTPS client")
}

func readProblem(status int, text []byte, base string) error {
	problem := &Problem{Status: status}
	if json.Unmarshal(text, problem) != nil || problem.What == "" {
		return fmt.Errorf("%s answered %d %s: %w; is a keystrand broker there?", base, status, http.StatusText(status), keystrand.ErrRejected)
	}
	return problem
}
