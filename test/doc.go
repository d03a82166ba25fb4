// Package test runs Keystrand as its users do: a broker process built from this tree, the official clients, and the
// programs of the founding articles. It is a module of its own, so that none of what it needs reaches a user's module graph.
//
// Versions: github.com/apache/rocketmq-clients/golang/v5 v5.1.4. Tests that read the shared folder find it beside the
// checkout or under KEYSTRAND_SHARED; what is missing is a loud skip, and a failure in CI.
package test
