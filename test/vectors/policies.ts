/**
 * Policies with their RFC 8785 form and hash (contract §9). The hashes were made with Python's hashlib from
 * the texts, which were written by hand.
 */
export const policyVectors = [
  {
    policy: {
      trust_level: 'L1',
      constraints: {},
      routes: [],
      catalog_version: null,
      catalog_hash: null,
    },
    text: '{"catalog_hash":null,"catalog_version":null,"constraints":{},"routes":[],"trust_level":"L1"}',
    policy_hash: 'sha256:cb30d7543e34072a537d796eaa39cf6b37cf5d4234e1c16e7a1f56ff0e788b0d',
  },
  {
    policy: {
      trust_level: 'L3',
      constraints: {
        rate_limits: { requests_per_minute: 60, per: 'passport' },
        spend_limits: {
          per_transaction_usd: 0.1,
          daily_usd: 0.000001,
          monthly_usd: 1e9,
          alert_at: 0.5,
          unpriced: 'permit',
        },
        allowed_domains: ['api.example.com', '*.example.org'],
        pii_controls: { mode: 'redact', types: ['email', 'phone'] },
        approvals: { above_usd: 100.5, permissions: ['orders:cancel'], expires_in_s: 900 },
        trusted_issuers: ['own', 'iss_01m7w2y7m1040g2081040g2081'],
      },
      routes: [
        {
          methods: ['GET', 'POST'],
          path: '/orders/:id/größe',
          permission_key: 'orders:read',
          amount_usd: 0.25,
        },
        { path: '/*', permission_key: 'orders:create' },
      ],
      catalog_version: 3,
      catalog_hash: 'sha256:6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d',
    },
    text: '{"catalog_hash":"sha256:6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d","catalog_version":3,"constraints":{"allowed_domains":["api.example.com","*.example.org"],"approvals":{"above_usd":100.5,"expires_in_s":900,"permissions":["orders:cancel"]},"pii_controls":{"mode":"redact","types":["email","phone"]},"rate_limits":{"per":"passport","requests_per_minute":60},"spend_limits":{"alert_at":0.5,"daily_usd":0.000001,"monthly_usd":1000000000,"per_transaction_usd":0.1,"unpriced":"permit"},"trusted_issuers":["own","iss_01m7w2y7m1040g2081040g2081"]},"routes":[{"amount_usd":0.25,"methods":["GET","POST"],"path":"/orders/:id/größe","permission_key":"orders:read"},{"path":"/*","permission_key":"orders:create"}],"trust_level":"L3"}',
    policy_hash: 'sha256:8d0caf17215ddb9856aeef1d4690a8d961492673869325e81687d837c5ca0dce',
  },
] as const;
