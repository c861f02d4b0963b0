import { describe, expect, it } from 'vitest';
import { must } from '../../../shared/errors/assert.ts';
import { type PiiType, piiTypes } from '../../../shared/model/constraints.ts';
import { isRequestablePermission } from '../../../shared/model/permission.ts';
import { permissionOnRecord } from '../../../shared/pii/permission-on-record.ts';

const permission = (text: string) => must(isRequestablePermission(text) ? text : null, 'a permission');
const at = (types: readonly PiiType[]) => ({ mode: 'log_only', types }) as const;

describe('permissionOnRecord', () => {
  it('keeps what names an action', () => {
    for (const text of ['orders:create', 'orders-2024:v1.2', 'a:b']) {
      expect(permissionOnRecord(permission(text), at(piiTypes))).toBe(text);
    }
    expect(permissionOnRecord(null, at(piiTypes))).toBeNull();
  });

  it.each([
    ...['pay:4111111111111111', 'pay:de89370400440532013000', 'call:020-7946-0018', 'ssn:536-22-8726'],
    'see:203.0.113.7',
  ])('leaves out %j', (text) => expect(permissionOnRecord(permission(text), at(piiTypes))).toBeNull());

  it('leaves out the types that the gate looks for, and nothing where it looks for none', () => {
    const card = permission('pay:4111111111111111');
    expect(permissionOnRecord(card, at(['iban']))).toBe(card);
    expect(permissionOnRecord(card, null)).toBe(card);
  });
});
