import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { must } from '../../../shared/errors/assert.ts';
import { parseConstraints } from '../../../shared/wire/api/constraints.ts';
import { parseGateRoutes } from '../../../shared/wire/api/gate-routes.ts';
import { type Policy, policyHash, policyText } from '../../../shared/wire/api/policy-hash.ts';
import { policyVectors } from '../../vectors/policies.ts';

type Vector = (typeof policyVectors)[number]['policy'];

const policyOf = ({ trust_level, constraints, routes, catalog_version, catalog_hash }: Vector): Policy => ({
  trustLevel: trust_level,
  constraints: parseConstraints(constraints, { param: 'constraints', of: 'gate' }),
  routes: parseGateRoutes(routes),
  catalog:
    catalog_version === null || catalog_hash === null
      ? null
      : { version: catalog_version, contentHash: catalog_hash },
});

describe('policyHash', () => {
  it.each(policyVectors)('is that of the fixed vector $policy_hash', ({ policy, text, policy_hash }) => {
    expect(policyText(policyOf(policy))).toBe(text);
    expect(policyHash(policyOf(policy))).toBe(policy_hash);
  });

  it('changes with each part of a policy', () => {
    const policy = policyOf(must(policyVectors[1], 'two vectors').policy);
    const catalog = must(policy.catalog, 'a catalog');
    const others: readonly Policy[] = [
      { ...policy, trustLevel: 'L2' },
      { ...policy, constraints: { ...policy.constraints, piiControls: null } },
      { ...policy, routes: policy.routes.toReversed() },
      { ...policy, catalog: null },
      { ...policy, catalog: { ...catalog, version: 4 } },
      { ...policy, catalog: { ...catalog, contentHash: catalog.contentHash.replace('6e34', '6e35') } },
    ];
    expect(new Set([policy, ...others].map(policyHash)).size).toBe(1 + others.length);
  });

  it('is in the contract for the policy without anything', () => {
    const page = readFileSync(new URL('../../../docs/contract/09-attestations.md', import.meta.url), 'utf8');
    const { text, policy_hash } = must(policyVectors[0], 'two vectors');
    expect(page).toContain(`\`${text}\``);
    expect(page).toContain(`\`${policy_hash}\``);
  });
});
