-- Asks an agent-trust gate about a request of HAProxy: `http-request lua.agent-trust /<gate_id>`.
-- Sets txn.agent_trust to PERMIT where the gate permits. What else the gate says is answered here. In every
-- other case nothing is set, and haproxy.cfg answers 503.
-- Tried with HAProxy 2.6.12 and its Lua 5.3 (Debian 12) by test/proxies/proxies.test.ts. Nothing else is needed.

-- The section `sidecar` of haproxy.cfg, which has its own, shorter deadline and always answers.
local way = "abns@agent-trust"
local deadline_ms = 10000

local passed_on = {
  "content-type", "www-authenticate", "retry-after",
  "x-gate-decision", "x-gate-reason", "x-attestation-id", "x-passport-id",
}

-- Proofs of possession, and what a signature may cover.
local proofs = {
  "dpop", "signature", "signature-input", "signature-agent", "content-digest",
  "content-type", "date", "accept", "user-agent",
}

-- The sidecar gets what is named here and nothing else of the request, so that no header of an agent passes
-- for one that FORWARD_AUTH_HEADERS trusts.
local function question(txn)
  local sent = txn.http:req_get_headers()
  local headers = {
    ["x-forwarded-method"] = { txn.f:method() },
    -- `*` has no path: as it is, the sidecar refuses it.
    ["x-forwarded-uri"] = { txn.f:pathq() or txn.f:url() },
    ["x-forwarded-host"] = { txn.f:req_fhdr("host") },
    -- For a gate without routes: the permission that each request needs.
    -- ["x-gate-permission"] = { "orders:create" },
  }
  local function copy(name, pattern)
    local values = {}
    for _, value in pairs(sent[name] or {}) do
      if (value:lower() .. " "):find(pattern) then values[#values + 1] = value end
    end
    if #values > 0 then headers[name] = values end
  end
  -- Repeated ones too: the sidecar refuses more than one passport.
  copy("x-agent-passport", "")
  copy("authorization", "^passport%s")
  for _, name in ipairs(proofs) do copy(name, "") end
  return headers
end

core.register_action("agent-trust", { "http-req" }, function(txn, gate)
  local url = "http://agent-trust" .. gate
  local client = core.httpclient()
  local answer = client:get { url = url, dst = way, headers = question(txn), timeout = deadline_ms }
  local function header(name)
    local values = (answer.headers or {})[name]
    return values and values[0]
  end

  if answer.status == 200 and header("x-gate-decision") == "PERMIT" then
    txn:set_var("txn.passport_id", header("x-passport-id"))
    txn:set_var("txn.attestation_id", header("x-attestation-id"))
    txn:set_var("txn.agent_trust", "PERMIT")
  elseif answer.status == 401 or answer.status == 403 or (answer.status == 503 and header("x-gate-decision")) then
    local reply = txn:reply { status = answer.status, body = answer.body or "" }
    for _, name in ipairs(passed_on) do
      if header(name) then reply:add_header(name, header(name)) end
    end
    txn:done(reply)
  end
end, 1)
