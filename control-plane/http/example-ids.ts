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
  newToolHash: 'sha256:8b6ba10664be8c0cc71c8363d0b06a02747bdde866d942b68316d0fa22141279',
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

/** Of the user who logs in in the examples. */
export const exampleLogin = { email: 'ada@example.com', password: 'correct horse battery' } as const;

/** Of the examples of decisions. */
export const decisionRequest = {
  permission_key: 'orders:create',
  amount: 12.5,
  domain: 'shop.example.com',
} as const;
