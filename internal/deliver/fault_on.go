//go:build faultinject

package deliver

var handOutLeased, acceptStaleTokens bool

// HandOutLeased breaks delivery: with a strand's head goes out its next message, under a token of its own. Only a build that
// must be caught by the judge has it. Call it before the first step.
func HandOutLeased() { handOutLeased = true }

// AcceptStaleTokens breaks delivery: an ack or renewal under an old token is answered ok. As HandOutLeased.
func AcceptStaleTokens() { acceptStaleTokens = true }

// leasedNext adds the message behind the one that x has just handed out.
func (m *Machine) leasedNext(x *slot, grants []Grant) []Grant {
	head, err := m.index.Entry(x.strand.Head)
	if err != nil || head.Next < 0 || head.Next >= m.visible {
		return grants
	}
	last := grants[len(grants)-1]
	return append(grants, Grant{Strand: x.key, Entry: head.Next, Attempt: 1, Token: m.tokens.Next(), Lease: last.Lease})
}
