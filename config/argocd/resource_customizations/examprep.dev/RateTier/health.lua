-- Healthy: the declared state is in effect. Progressing: the operator has not seen it, is applying it, or waits for an
-- object of the same commit. Degraded: only a change can help; the message says which. Suspended: spec.suspend is set.
local health = { status = "Progressing", message = "waiting for the operator" }
if obj.metadata.deletionTimestamp ~= nil then
  health.message = "being deleted"
  return health
end
if obj.status == nil or obj.status.conditions == nil then
  return health
end
if obj.metadata.generation ~= nil and obj.status.observedGeneration ~= obj.metadata.generation then
  return health
end
local found = {}
for _, condition in ipairs(obj.status.conditions) do
  found[condition.type] = condition
end
local ready, stalled, delivering = found.Ready, found.Stalled, found.Delivering
if ready == nil then
  return health
end
health.message = ready.message
if ready.reason == "Suspended" then
  health.status = "Suspended"
elseif stalled ~= nil and stalled.status == "True" then
  health.status = "Degraded"
elseif ready.status == "True" then
  health.status = "Healthy"
  -- A failing receiver is not a fault of the deployment: the message reports it, the status does not.
  if delivering ~= nil and delivering.status == "False" then
    health.message = delivering.message
    if delivering.reason == "Suspended" then
      health.status = "Suspended"
    end
  end
end
return health
