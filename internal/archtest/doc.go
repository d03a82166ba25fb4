// Package archtest holds the tests that read the source of the whole module: which package imports which, and what may not
// appear at all. Its only code is tests.
package archtest
