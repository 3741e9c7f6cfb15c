package webhooks

// State is the state of a delivery.
type State string

// The states of a delivery. All but StatePending are final.
const (
	StatePending   State = "pending"
	StateDelivered State = "delivered"
	StateFailed    State = "failed"
	StateCancelled State = "cancelled"
)
