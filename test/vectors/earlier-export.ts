/**
 * An export as builds made it whose records had neither `refers_to` nor `source_account`: the worked example
 * of docs/verify.md until 2026-11-22, byte for byte. What was signed then verifies for ever.
 */
export const earlierJwks = {
  keys: [
    {
      kty: 'OKP',
      crv: 'Ed25519',
      alg: 'EdDSA',
      use: 'sig',
      kid: '--6IM5l0OosLj9yWskISYhUA3n_3CURQkmrYMSha_ck',
      purpose: 'attestation',
      x: '6kpsY-KcUgq-9VB7Ey7F-ZVHdq6-vnuSQh7qaRRG0iw',
      nbf: 1795165200,
      retired_at: null,
      compromised: false,
    },
  ],
} as const;

/** Each without its newline. */
export const earlierExportLines = [
  '{"manifest":{"created_at":"2026-11-20T09:01:00.000Z","format":"agent-trust.attestations.v1","key_ids":["--6IM5l0OosLj9yWskISYhUA3n_3CURQkmrYMSha_ck"],"since":null}}',
  '{"chain":{"chain_id":"gate_01m7w2y7m1040g2081040g2081","first_sequence":1,"last_hash":"sha256:28a1f1c33f43d1c2096d8f8873cf6e2f540b816fbb51c791aa9d467dd4bad8c3","last_sequence":1,"previous_attestation_hash":null}}',
  '{"amount_micro_usd":null,"chain_id":"gate_01m7w2y7m1040g2081040g2081","constraints_evaluated":["passport"],"decision":"BLOCK","gate_id":"gate_01m7w2y7m1040g2081040g2081","hash":"sha256:28a1f1c33f43d1c2096d8f8873cf6e2f540b816fbb51c791aa9d467dd4bad8c3","id":"att_01m7w2y7m30c1g60r30c1g60r3","passport_id":null,"permission_key":"orders:create","pii":[],"previous_attestation_hash":null,"reason":"passport_signature_invalid","request_hash":"sha256:e1b0e1311c23054a6c1c6c19506c3f3c1614e16c5c521fcbe192c47027d14a7c","resolution":null,"sequence":1,"signature":"92fsGhmJw5OBOs53aOxF7L24ZIIa-2dMvYrQQZQErKjYAS7FTAyb-r_YVZTj4h1iKM1kHFEYfEO922pvJNA3Dw","signing_key_id":"--6IM5l0OosLj9yWskISYhUA3n_3CURQkmrYMSha_ck","source":"control-plane","test":false,"timestamp":"2026-11-20T09:00:03.000Z"}',
  '{"chain":{"chain_id":"pass_01m7w2y7m1040g2081040g2081","first_sequence":1,"last_hash":"sha256:857025fc4025e94fb70ff471b21a6bac775ad5384731f5ca27cd5c06dcd9a299","last_sequence":2,"previous_attestation_hash":null}}',
  '{"amount_micro_usd":12500000,"chain_id":"pass_01m7w2y7m1040g2081040g2081","constraints_evaluated":["passport","trust_level","freshness","issuer","permission","spend_limit"],"decision":"PERMIT","gate_id":"gate_01m7w2y7m1040g2081040g2081","hash":"sha256:53b176521386643cae1034f535cbfc3c7bb489cb8b82e988ee1c643eb93604c4","id":"att_01m7w2y7m1040g2081040g2081","passport_id":"pass_01m7w2y7m1040g2081040g2081","permission_key":"orders:create","pii":[],"previous_attestation_hash":null,"reason":null,"request_hash":"sha256:f6df20ed1d66665ecaa3a8bd0c567fb6052788a18783b0a4905f3dcff101f378","resolution":null,"sequence":1,"signature":"da3szJ5-o49PQKf1aWNjyP2jI-XlyfiuMnghqq3yGK6vNgDKldBbTkxkN_H9sQS1-YwuPD4lAS4X1xe4xx2SCQ","signing_key_id":"--6IM5l0OosLj9yWskISYhUA3n_3CURQkmrYMSha_ck","source":"side_01m7w2y7m1040g2081040g2081","test":false,"timestamp":"2026-11-20T09:00:01.000Z"}',
  '{"amount_micro_usd":900000000,"chain_id":"pass_01m7w2y7m1040g2081040g2081","constraints_evaluated":["passport","trust_level","freshness","issuer","permission","spend_limit"],"decision":"BLOCK","gate_id":"gate_01m7w2y7m1040g2081040g2081","hash":"sha256:857025fc4025e94fb70ff471b21a6bac775ad5384731f5ca27cd5c06dcd9a299","id":"att_01m7w2y7m2081040g2081040g2","passport_id":"pass_01m7w2y7m1040g2081040g2081","permission_key":"orders:create","pii":[{"pointer":"/customer/e-mail","type":"email"}],"previous_attestation_hash":"sha256:53b176521386643cae1034f535cbfc3c7bb489cb8b82e988ee1c643eb93604c4","reason":"spend_limit_exceeded","request_hash":"sha256:941014245f7741a593737f5080ba92b7da77830c44f5157bf730a6c0ed0e0806","resolution":null,"sequence":2,"signature":"L7Wc3SVhNVQAZzQ9Z7hrzzhLOqnC0p-GFaGjavdC3n468M9rPPg3zPaYQoGwIaTUTkrJ9g73RzT4R8fkFUdfAw","signing_key_id":"--6IM5l0OosLj9yWskISYhUA3n_3CURQkmrYMSha_ck","source":"side_01m7w2y7m1040g2081040g2081","test":false,"timestamp":"2026-11-20T09:00:02.000Z"}',
  '{"end":{"chains":2,"records":3}}',
] as const;
