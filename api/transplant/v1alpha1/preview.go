package v1alpha1

// Preview is what the new manager would write about the cluster's nodes, asked of the cloud by its own provider's code, with nothing written.
type Preview struct {
	Provider string `json:"provider"`
	// Calls to the cloud that it took.
	Calls int           `json:"calls,omitempty"`
	Nodes []NodePreview `json:"nodes,omitempty"`
	// Error is why there is no answer at all.
	Error string `json:"error,omitempty"`
}

// NodePreview is what the new manager would find for a node.
type NodePreview struct {
	Node string `json:"node"`
	// Found is false when the provider says that there is no such instance: the node lifecycle loop would delete the Node.
	Found      bool   `json:"found"`
	Shutdown   bool   `json:"shutdown,omitempty"`
	ProviderID string `json:"providerID,omitempty"`
	// Addresses as Type=address, in the provider's order.
	Addresses []string `json:"addresses,omitempty"`
	Zone      string   `json:"zone,omitempty"`
	Region    string   `json:"region,omitempty"`
	Type      string   `json:"type,omitempty"`
	// Labels beyond zone, region and type.
	Labels map[string]string `json:"labels,omitempty"`
	// Error is why this node is unknown.
	Error string `json:"error,omitempty"`
}

// DryRun is the API server's answer to an object that apply would write, sent with dryRun=All.
type DryRun struct {
	// Ref is Kind/namespace/name or Kind/name.
	Ref string `json:"ref"`
	// Verb is create, update or patch.
	Verb string `json:"verb"`
	// OK tells that the API server, its admission plugins and its webhooks would take it.
	OK bool `json:"ok"`
	// Error is the refusal; Unanswered tells that it was none, but no answer.
	Error      string `json:"error,omitempty"`
	Unanswered bool   `json:"unanswered,omitempty"`
}
