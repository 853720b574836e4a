// Package agent decides what a process on a host does for a client that reaches it through a session. The session may
// break at any time. Every call is done once, however often it is requested, and its result is kept until it has been
// received.
//
//	client ── exec session ── relay ── unix socket ── agent ── the host's root, mounted
//	           (may break)                             │
//	                                                   ├─ calls: POST /v1/METHOD, JSON, with an ID
//	                                                   └─ tunnels: POST /v1/dial, bytes both ways
//
// One session carries one HTTP/2 connection. An agent without requests ends by itself.
package agent
