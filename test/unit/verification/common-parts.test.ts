import { describe, expect, it } from 'vitest';
import { federatedPassportId } from '../../../shared/crypto/federated-id.ts';
import { digestWordsOf } from '../../../shared/crypto/id-digest.ts';
import { digestAt } from '../../../shared/model/id-digest.ts';
import type { PermissionKey } from '../../../shared/model/permission.ts';
import { digestsOf, issuerOf, permissionSetOf } from '../../../shared/verification/common-parts.ts';
import { numbered } from '../../support/data/model-service.ts';

const keys = (...names: string[]) => names as readonly string[] as readonly PermissionKey[];

describe('what many passports say alike', () => {
  it('are the issuer and the account of each passport, with all digests in their places', () => {
    // Past the bound, twice, and each issuer with two accounts.
    for (let n = 0; n < 1_200; n++) {
      const [passportId, issuerId] = [numbered.passport(n), numbered.issuer(n % 600)];
      const accountId = numbered.account(n % 3);
      const issuer = issuerOf({ issuerId, accountId });
      expect(issuer).toMatchObject({ issuerId, accountId });
      expect(digestsOf({ passportId, mode: 'live', owner: null }, issuer)).toEqual(
        digestWordsOf(passportId, issuerId, accountId),
      );
      expect(digestsOf({ passportId, mode: 'live', owner: 'alice' }, issuer)).toEqual(
        digestWordsOf(passportId, issuerId, accountId, `owner:${accountId}:live:alice`),
      );
      const words = digestsOf({ passportId, mode: 'live', owner: null }, issuer, 'ann');
      const ofUser = digestWordsOf(federatedPassportId(issuerId, 'ann'));
      expect(words.subarray(digestAt.user)).toEqual(ofUser);
      expect(words.subarray(digestAt.owner, digestAt.user)).toEqual(new Int32Array(4));
      expect(issuerOf({ issuerId, accountId })).toBe(issuer);
    }
  });

  it('are the permissions of each passport, in one set for lists that are equal', () => {
    for (let n = 0; n < 600; n++) {
      const set = permissionSetOf(keys(`area:${n}`, 'orders:*'));
      expect(set).toEqual(new Set([`area:${n}`, 'orders:*']));
      expect(permissionSetOf(keys(`area:${n}`, 'orders:*'))).toBe(set);
    }
    expect(permissionSetOf(keys())).toEqual(new Set());
    expect(permissionSetOf(keys('a:b', 'a:b'))).toEqual(new Set(['a:b']));
  });
});
