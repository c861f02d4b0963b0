import type { Example } from './document.ts';

/**
 * What is in the examples for ids and tokens that each reader has of their own. A test puts its own there and
 * sends every example.
 */
export const exampleIds = {
  issuerId: 'iss_01m7w73a00k3v2c8d5e9f1g7hj',
  gateId: 'gate_01m7w739pyh5af5epc0s64v3bj',
  askingGateId: 'gate_01m7w8f7a2e4r6t8y0w3s5d7h9',
  passportId: 'pass_01m7w8f9hdzbnzm1x73rrwwwpj',
  endsAt: '2026-12-20T00:00:00Z',
  invitationToken: 'Gq0VYtZ1pW8n3cKx5RmJ7uLbT2dFhS4aQeXoNvBiCyM',
  totpCode: '492039',
  oidcCode: 'zJ3Tn0Rr5bGdSPeY2mHq8vKcXwLaUf1o',
  oidcState: 'k4Wq9sVb2Nf7Yc0Zt5Lp8Xd3Rg6Hm1Ja4Qe7Uo0Ti2S',
  oidcIssuer: 'https://login.example.com/staff',
  newPasskey: { id: 'Kx7vQ2…', rawId: 'Kx7vQ2…', type: 'public-key', response: {} },
  passkeyAnswer: { id: 'Kx7vQ2…', rawId: 'Kx7vQ2…', type: 'public-key', response: { userHandle: '…' } },
  retiredKid: '2csYkWAHR4W_uxN6oqctOMpjSCVAMjdxonwWDd8Nl58',
  token: 'eyJhbGciOiJFZERTQSIsInR5cCI6InBhc3Nwb3J0K2p3dCJ9.….…',
  receipt: {
    format: 'agent-trust.receipt.v1',
    statement: {
      attestation_id: 'att_01m8f370nhdtwe9hj01y6hy5vn',
      chain_id: 'pass_01m8f370m7bk1knbww3hc0q44h',
      decision: 'PERMIT',
      gate_id: 'gate_01m8f370hpyw3zan56j4qabjdn',
      issued_at: '2026-11-27T18:10:22.001Z',
      log_by: '2026-11-28T18:10:22.001Z',
      reason: null,
      request_hash: 'sha256:8b6ba10664be8c0cc71c8363d0b06a02747bdde866d942b68316d0fa22141279',
    },
    index: 0,
    size: 1,
    path: [],
    signature: 'm4oW1x3Tq0bV8nYc5Zr7Lk2Hd9Gf6Js1Ae4Qp7Uo0Ti3SwEeRrTtYyUuIiOoPpAaSsDdFfGgHhJjKkLlZzXxCw',
    certificate: {
      account_id: 'acct_01m8f370c5n9k2v4b7x1z3a5s8',
      expires_at: '2026-12-04T18:00:00.000Z',
      kid: 'iRn5bYv2K8cW0xQ4tS7uL1mH3dF6gJ9pZaEoXyNvBiC',
      not_before: '2026-11-27T17:59:00.000Z',
      purpose: 'sidecar',
      sidecar_id: 'side_01m8f370d8r4t6y1w3q5e7n9k2',
      signing_key_id: 'WgK65EjSf-MdPMQjLC4m7Sm-Ua3pZFiA5pVIcet_7nE',
      x: 'Zx4Vb8Nm2Lk6Jh0Gf5Ds9Aq3We7Rt1Yu4Io8Pa2Sd6F',
      signature: 'Qw3Er5Ty7Ui9Op1As3Df5Gh7Jk9Lz1Xc3Vb5Nm7Qa9Ws1Ed3Rf5Tg7Yh9Uj1Ik3Ol5Pz7Xc9Vb1Nm3Qw5Er7TA',
    },
    history: null,
  },
} as const;
const { issuerId, gateId, invitationToken, token, totpCode } = exampleIds;

/** Of the user who logs in in the examples. */
export const exampleLogin = { email: 'ada@example.com', password: 'correct horse battery' } as const;

const newToolHash = 'sha256:8b6ba10664be8c0cc71c8363d0b06a02747bdde866d942b68316d0fa22141279';

const decisionRequest = { permission_key: 'orders:create', amount: 12.5, domain: 'shop.example.com' };

/** Bodies that the service takes as they are here, by operation. */
export const requestExamples: Readonly<Record<string, Readonly<Record<string, Example>>>> = {
  issuePassport: {
    reference: {
      summary: 'Reference',
      value: {
        issuer_id: issuerId,
        agent_id: 'buyer-1',
        agent_name: 'Buyer',
        permissions: ['orders:create', 'orders:read'],
        expires_in_days: 30,
        trust_tier: 'L2',
        metadata: { team: 'procurement' },
      },
    },
    limited: {
      summary: 'Reference, with limits of its own',
      value: {
        agent_id: 'buyer-2',
        permissions: ['orders:*'],
        constraints: { spend_limits: { per_transaction_usd: 20 }, allowed_domains: ['*.example.com'] },
      },
    },
    machineDescription: {
      summary: 'Machine description',
      value: {
        issuer_id: issuerId,
        subject: { agent_id: 'researcher-7', model: 'example-model', version: '3', operator: 'Acme' },
        permissions: ['search:query'],
        expires_at: null,
      },
    },
    unattended: {
      summary: 'Unattended',
      value: {
        agent_name: 'Nightly job',
        agent_type: 'custom',
        permissions: ['reports:read'],
        expires_in: '12h',
      },
    },
    toolCall: {
      summary: 'As in the tool call',
      value: { issuer_id: issuerId, agent_id: 'buyer-3', permissions: ['orders:create'], expires_in: '30m' },
    },
  },
  issuePassportUnattended: {
    unattended: {
      summary: 'Unattended',
      value: {
        agent_name: 'Weekly job',
        agent_type: 'custom',
        permissions: ['reports:read'],
        expires_in: '24h',
      },
    },
  },
  revokePassport: { reason: { value: { reason: 'laptop stolen' } } },
  reportOutcome: {
    served: { value: { outcome: 'served', amount: 3.2, detail: '640 tokens' } },
    failed: { value: { outcome: 'failed', detail: 'the supplier timed out' } },
  },
  extendHold: { hour: { value: { expires_in_s: 3600 } } },
  refundPermit: { part: { value: { amount: 1.5, reason: 'two chairs came back' } } },
  approveApproval: { note: { value: { note: 'Ordered by Ms Okafor' } } },
  createWallet: {
    company: { value: { name: 'Purchasing', limits: { monthly_usd: 5000, requests_per_minute: 600 } } },
  },
  updateWallet: { lower: { value: { limits: { monthly_usd: 4000 }, alert_at: 0.9 } } },
  setPassportWallet: { out: { summary: 'Out of any wallet', value: { wallet_id: null } } },
  createStandingApproval: {
    orders: {
      value: {
        gate_id: exampleIds.askingGateId,
        passport_id: exampleIds.passportId,
        permission_key: 'orders:create',
        each_usd: 300,
        total_usd: 2000,
        expires_at: exampleIds.endsAt,
        note: 'Chairs for the new office',
      },
    },
  },
  denyApproval: { note: { value: { note: 'Not before the next quarter' } } },
  reportMcpTools: {
    first: {
      value: {
        gate_id: 'gate_01m7w739pyh5af5epc0s64v3bj',
        upstream: 'http://127.0.0.1:3000/mcp',
        tools: [{ definition: '{"inputSchema":{"type":"object"},"name":"search"}' }],
        is_whole: true,
      },
    },
  },
  acceptMcpPin: { change: { value: { hash: newToolHash } } },
  rejectMcpPin: { change: { value: { hash: newToolHash } } },
  createGate: {
    reference: {
      summary: 'Reference',
      value: {
        name: 'Orders API',
        description: 'Orders of the web shop',
        trust_level: 'L1',
        constraints: { allowed_domains: ['*.example.com'], spend_limits: { per_transaction_usd: 50 } },
      },
    },
    routes: {
      summary: 'For a proxy, with routes',
      value: {
        name: 'Files',
        trust_level: 'L1',
        routes: [
          { methods: ['GET', 'HEAD'], path: '/files/*', permission_key: 'files:read' },
          { methods: ['PUT'], path: '/files/:name', permission_key: 'files:write', amount_usd: 0.01 },
        ],
      },
    },
    machineDescription: {
      summary: 'Machine description, with a catalog',
      value: {
        name: 'Shipping API',
        trust_profile: 'L2',
        catalog: {
          permissions: [
            { key: 'shipments:quote', pricing: { model: 'per_call', price_cents: 2, currency: 'USD' } },
          ],
        },
      },
    },
  },
  updateGate: {
    mergePatch: {
      summary: 'One nested value changes',
      value: { constraints: { spend_limits: { per_transaction_usd: 25 } } },
    },
    removal: {
      summary: 'null removes',
      value: { description: null, constraints: { allowed_domains: null } },
    },
  },
  testGate: {
    test: {
      value: {
        passport_token: token,
        requested_action: 'orders:create',
        context: { domain: 'shop.example.com', estimated_cost_usd: 12.5 },
      },
    },
  },
  publishCatalog: {
    catalog: {
      value: {
        permissions: [
          {
            key: 'orders:create',
            display_name: 'Create an order',
            pricing: { model: 'per_call', price_cents: 5, currency: 'USD' },
            category: 'commerce',
            risk_level: 'medium',
            sla: { uptime_basis_points: 9_990, response_time_ms: 200 },
          },
          { key: 'orders:read', display_name: 'Read orders' },
        ],
      },
    },
  },
  checkGate: { check: { value: { passport: token, request: decisionRequest } } },
  checkGateBatch: { checks: { value: { checks: [{ passport: token, request: decisionRequest }] } } },
  enforce: {
    atGate: {
      summary: 'At a gate',
      value: { passport: token, request: { ...decisionRequest, gate_id: gateId } },
    },
    passportAlone: {
      summary: 'The passport alone',
      value: { passport: token, request: { permission_key: 'orders:create' } },
    },
  },
  createIssuer: {
    issuer: { value: { name: 'Acme', domain: 'acme.example', trust_tier: 'L3' } },
    provider: {
      summary: 'An issuer of others',
      value: {
        name: 'Keycloak',
        federation: {
          type: 'jwks',
          issuer: 'https://login.acme.example/realms/agents',
          jwks: {
            keys: [
              {
                kty: 'OKP',
                crv: 'Ed25519',
                alg: 'EdDSA',
                kid: 'agents-1',
                x: 'AD6gLYiueQ3TVIkZcXTlDo94I1w2p1JPXYXOHXenu3c',
              },
            ],
          },
          audiences: ['agent-gates'],
          claims: { agent_id: '/azp', permissions: '/realm_access/roles' },
          permission_map: { buyer: ['orders:create'] },
          trust_tier: 'L2',
        },
      },
    },
  },
  revokeSubject: { subject: { value: { subject: 'shop-agent', reason: 'key leaked' } } },
  tryToken: { token: { value: { token: 'eyJhbGciOiJSUzI1NiIsImtpZCI6…' } } },
  setAuthzenVocabulary: {
    records: {
      value: {
        resources: [
          {
            type: 'record',
            id: 'record-1',
            gate_id: gateId,
            properties: { status: 'archived' },
          },
        ],
        actions: [
          {
            resource_type: 'record',
            name: 'write',
            permission_key: 'records:write-archived',
            when: { resource: { status: 'archived' } },
          },
          { resource_type: 'record', name: 'write', permission_key: 'records:write' },
        ],
      },
    },
  },
  setRetention: { year: { value: { days: 400 } }, operator: { value: { days: null } } },
  updateIssuer: { suspension: { value: { status: 'suspended' } }, name: { value: { name: 'Acme Corp' } } },
  createTemplate: {
    template: {
      value: {
        name: 'Small purchases',
        trust_level: 'L2',
        constraints: { spend_limits: { per_transaction_usd: 10 } },
      },
    },
  },
  createApiKey: {
    sidecar: { summary: 'For a sidecar', value: { name: 'sidecar in eu-1', scopes: ['sidecars:connect'] } },
    backend: {
      summary: 'For a resource server, in the test world',
      value: { name: 'shop backend', scopes: ['enforcement:check'], mode: 'test' },
    },
  },
  rollApiKey: { overlap: { value: { overlap_s: 3_600 } } },
  createChannel: {
    slack: {
      summary: 'A channel of Slack, at once',
      value: {
        name: 'payments in Slack',
        kind: 'slack',
        target: 'https://hooks.slack.com/services/T0000/B0000/XXXXXXXX',
      },
    },
    email: {
      summary: 'An e-mail after ten minutes without an answer, for one gate',
      value: {
        name: 'on call',
        kind: 'email',
        target: 'on-call@example.com',
        gate_id: gateId,
        after_s: 600,
        events: ['approval.requested'],
      },
    },
  },
  updateChannel: {
    later: { value: { after_s: 300 } },
    disabling: { value: { status: 'disabled' } },
  },
  createWebhook: {
    endpoint: {
      value: {
        url: 'https://hooks.example.com/agent-trust',
        events: ['passport.revoked', 'spend_limit.approaching'],
        description: 'Pages whoever is on call',
      },
    },
    fetched: { summary: 'To be fetched', value: { url: null, events: ['passport.denied'] } },
  },
  updateWebhook: {
    events: { value: { events: ['passport.revoked'] } },
    disabling: { value: { status: 'disabled' } },
  },
  rollWebhookSecret: { overlap: { value: { overlap_s: 86_400 } } },
  testWebhook: { event: { value: { event: 'passport.revoked' } } },
  recoverWebhook: { since: { value: { since: '2026-11-20T00:00:00Z' } } },
  createAccount: {
    pro: { value: { name: 'Globex', plan: 'pro' } },
    enterprise: {
      summary: 'With limits of its own',
      value: { name: 'Initech', plan: 'enterprise', limits: { requests_per_minute: 1_000 } },
    },
  },
  updateAccount: { suspension: { value: { status: 'suspended' } }, plan: { value: { plan: 'teams' } } },
  logIn: {
    password: { value: exampleLogin },
    code: {
      summary: 'With the code of an authenticator app',
      value: { ...exampleLogin, totp_code: totpCode },
    },
  },
  beginOidcLogin: { page: { value: { return_to: '/console/approvals' } } },
  logInWithOidc: {
    returned: {
      value: { code: exampleIds.oidcCode, state: exampleIds.oidcState, iss: exampleIds.oidcIssuer },
    },
  },
  beginPasskey: { password: { value: { password: exampleLogin.password } } },
  addPasskey: { made: { value: { name: 'Laptop', response: exampleIds.newPasskey } } },
  renamePasskey: { name: { value: { name: 'Telephone' } } },
  logInWithPasskey: { signed: { value: { response: exampleIds.passkeyAnswer } } },
  inviteUser: {
    approver: { value: { email: 'grace@example.com', name: 'Grace Hopper', role: 'approver' } },
  },
  updateUser: { role: { value: { role: 'admin' } }, disabled: { value: { status: 'disabled' } } },
  changePassword: {
    change: {
      value: {
        current_password: exampleLogin.password,
        new_password: 'a long sentence that I can remember',
      },
    },
  },
  confirmTotp: { code: { value: { code: totpCode } } },
  removeTotp: { password: { value: { password: exampleLogin.password } } },
  acceptInvitation: {
    invited: {
      value: {
        token: invitationToken,
        name: 'Grace Hopper',
        password: 'a long sentence that I can remember',
      },
    },
  },
  showReceipt: { shown: { value: { receipt: exampleIds.receipt } } },
  revokeSidecarKey: {
    leaked: {
      summary: 'The private key leaked',
      value: { kid: 'ADDQAF1gzF8DzeJGfr6lczSgJW7EonViKE6Vnh_8hqI' },
    },
  },
  rotateSigningKey: {
    rotation: { value: { purpose: 'passport' } },
    compromise: { summary: 'The private key leaked', value: { purpose: 'passport', compromised: true } },
    retired: {
      summary: 'The private key of a retired key leaked',
      value: { purpose: 'passport', compromised: true, kid: exampleIds.retiredKid },
    },
  },
};
