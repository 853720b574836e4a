// Package agent decides what a process on a host does for a client that reaches it through a session which may break at
// any time: every call is done once, however often it is asked for, and what came of it is kept until it has been
// heard.
//
//	client ── exec session ── relay ── unix socket ── agent ── the host's root, mounted
//	           (may break)                             │
//	                                                   ├─ calls: POST /v1/METHOD, JSON, with an ID
//	                                                   └─ tunnels: POST /v1/dial, bytes both ways
//
// One session carries one HTTP/2 connection. An agent that nobody asks ends by itself.
package agent
