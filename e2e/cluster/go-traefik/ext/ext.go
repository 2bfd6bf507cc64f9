// Package ext has the fields that Traefik's own products add to its configuration: none here.
package ext

// HTTP adds nothing.
type HTTP struct{}

// Router adds nothing.
type Router struct{}
