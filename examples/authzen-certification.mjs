// Prepares an account for the OpenID AuthZEN certification scenario: subjects alice and bob, resources
// record-1 and record-2, and the actions read, write and delete. Run it once, with a live `admin:*` key. It
// prints a key for the harness.
const { AGENT_TRUST_URL = 'http://127.0.0.1:8080', AGENT_TRUST_API_KEY = '' } = process.env;

async function call(method, path, body) {
  const response = await fetch(`${AGENT_TRUST_URL}/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${AGENT_TRUST_API_KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(`${method} ${path}: ${answer.error.message}`);
  return answer;
}

const { gate_id } = await call('POST', '/gates', { name: 'AuthZEN certification', trust_level: 'L1' });
const permissionsOf = {
  alice: ['records:read', 'records:write', 'records:delete-soft'],
  bob: ['records:read', 'records:write-archived'],
};
for (const [agent_id, permissions] of Object.entries(permissionsOf))
  await call('POST', '/passports', { agent_id, permissions });

const type = 'record';
const action = (name, permission_key, when) => ({
  resource_type: type,
  name,
  permission_key,
  ...(when && { when }),
});
await call('PUT', '/authzen/vocabulary', {
  resources: [
    { type, id: 'record-1', gate_id, properties: { status: 'active' } },
    { type, id: 'record-2', gate_id, properties: { status: 'archived' } },
  ],
  actions: [
    action('read', 'records:read'),
    action('write', 'records:write-archived', { resource: { status: 'archived' } }),
    action('write', 'records:write'),
    action('delete', 'records:delete-soft', { action: { soft: true } }),
    action('delete', 'records:delete'),
  ],
});
const scopes = ['enforcement:check', 'enforcement:delegate'];
const { key } = await call('POST', '/api-keys', { name: 'AuthZEN certification', scopes });
console.log(key);
