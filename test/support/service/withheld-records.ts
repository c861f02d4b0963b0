import type { Api, Reply } from './api.ts';

/**
 * Decisions of a gate whose controls find personal data in the permission or the domain of a request, and
 * leave it out of the record: with a finding of it, and without one.
 */
export async function recordWithheld(api: Api): Promise<readonly Reply['body'][]> {
  const controls = { mode: 'log_only', types: ['ip_address', 'payment_card'] };
  const constraints = { allowed_domains: ['192.0.2.1', 'a.example'], pii_controls: controls };
  const { gate_id: gateId } = await api.createGate({ constraints });
  const { jwt: passport } = await api.issuePassport();
  const permitted = { permission_key: 'orders:create', domain: '192.0.2.1' };
  const others = Array.from({ length: 40 }, (_, place) => [`a${place}`, `198.51.100.${place}`]);
  const requests = [
    permitted,
    // The list of findings is full, or the search has ended, before the domain.
    { ...Object.fromEntries(others), ...permitted },
    { text: 'x'.repeat(17_000), ...permitted },
    // A check blocks before anything is searched.
    { ...permitted, domain: '192.0.2.2' },
    { domain: 'a.example', permission_key: 'orders:4111111111111111' },
    // Nothing is left out.
    { permission_key: 'orders:create', domain: 'a.example' },
    { permission_key: 'orders:create', domain: 'b.example' },
    { permission_key: 'orders:create' },
    { domain: 'a.example' },
  ];
  const records: Reply['body'][] = [];
  for (const request of requests) {
    const { body } = await api.call({ url: `/v1/gates/${gateId}/check`, body: { passport, request } });
    records.push((await api.call({ url: `/v1/attestations/${body.attestation_id}` })).body);
  }
  return records;
}
