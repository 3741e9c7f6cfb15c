package webhooks

// PlannerSettings are for the connections of a worker's pool. Its tables are queues: what the statistics say of rows that
// are pending was true a minute ago, or never, and a plan that reads all of them, once for each batch, is slowest when most
// are waiting. Its statements (queries/webhook_worker.sql, and the sweep of attempts) name rows by id or by the order of an
// index, so there is one good plan for each, without a look at the tables: reading by index, in the index's order.
func PlannerSettings() map[string]string {
	return map[string]string{
		"enable_seqscan":  "off",
		"enable_sort":     "off",
		"plan_cache_mode": "force_generic_plan",
		"jit":             "off", // a plan that had no way around what is off looks dear enough to be compiled
	}
}
