import { describe, expect, it } from 'vitest';
import { isGrantablePermission, isRequestablePermission } from '../../../shared/model/permission.ts';

describe('permissions', () => {
  it.each(['orders:create', 'a:b', 'data.v2:read-all_1'])('%s can be granted and asked for', (key) => {
    expect(isGrantablePermission(key)).toBe(true);
    expect(isRequestablePermission(key)).toBe(true);
  });

  it('a whole area can be granted, not asked for', () => {
    expect(isGrantablePermission('orders:*')).toBe(true);
    expect(isRequestablePermission('orders:*')).toBe(false);
  });

  it.each([
    ...['', 'orders', ':create', 'Orders:create', '*:*', 'a:b:c', 'orders:create\n'],
    `a:${'b'.repeat(127)}`,
    5,
  ])('%j is none', (key) => {
    expect(isGrantablePermission(key)).toBe(false);
  });

  it('may have 128 characters', () => {
    expect(isGrantablePermission(`a:${'b'.repeat(126)}`)).toBe(true);
  });
});
