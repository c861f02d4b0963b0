import { describe, expect, it } from 'vitest';
import { holdsScope, parseScope, type Scope, scopes } from '../../../shared/model/scopes.ts';

const grantedBy = (held: Scope): Scope[] => scopes.filter((scope) => holdsScope([held], scope));

describe('scopes', () => {
  it('resolves the alias of the unattended text', () => {
    expect(parseScope('passports:create')).toBe('passports:issue');
    expect(parseScope('passports:delete')).toBeNull();
    expect(parseScope('constructor')).toBeNull();
  });

  it('lets gates:manage do everything with gates, and ask for decisions', () => {
    expect(grantedBy('gates:manage').sort()).toEqual(
      ['enforcement:check', 'gates:create', 'gates:manage', 'gates:read', 'gates:update'].sort(),
    );
  });

  it('lets osgate:manage read, and admin do everything', () => {
    expect(grantedBy('osgate:manage').sort()).toEqual(['osgate:manage', 'osgate:read']);
    expect(grantedBy('admin:*')).toEqual(scopes);
  });

  it('lets keys:manage manage people, which was its own before', () => {
    expect(grantedBy('keys:manage').sort()).toEqual(['keys:manage', 'users:manage']);
  });

  it('implies nothing else', () => {
    for (const scope of scopes) {
      if (['gates:manage', 'keys:manage', 'osgate:manage', 'wallets:manage', 'admin:*'].includes(scope))
        continue;
      expect(grantedBy(scope)).toEqual([scope]);
    }
    expect(holdsScope([], 'gates:read')).toBe(false);
  });
});
