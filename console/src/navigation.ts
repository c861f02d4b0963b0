import type { Scope } from '../../shared/model/scopes.ts';

export interface Place {
  readonly to: string;
  readonly label: string;
  /** The scope that the page needs. Null: visible to all. */
  readonly scope: Scope | null;
}

/** The pages in the order of the navigation, in groups. */
export const navigation: readonly { readonly title: string; readonly places: readonly Place[] }[] = [
  {
    title: 'Today',
    places: [
      { to: '/', label: 'Overview', scope: null },
      { to: '/approvals', label: 'Approvals', scope: 'approvals:read' },
      { to: '/holds', label: 'Holds', scope: 'attestations:read' },
    ],
  },
  {
    title: 'Trust',
    places: [
      { to: '/passports', label: 'Passports', scope: 'passports:read' },
      { to: '/gates', label: 'Gates', scope: 'gates:read' },
      { to: '/wallets', label: 'Wallets', scope: 'wallets:read' },
      { to: '/mcp-pins', label: 'MCP tools', scope: 'gates:read' },
      { to: '/templates', label: 'Templates', scope: 'templates:read' },
      { to: '/issuers', label: 'Issuers', scope: 'issuers:read' },
      { to: '/discovery', label: 'Discovery', scope: null },
    ],
  },
  {
    title: 'Evidence',
    places: [
      { to: '/log', label: 'Request log', scope: 'attestations:read' },
      { to: '/attestations', label: 'Attestations', scope: 'attestations:read' },
      { to: '/verify', label: 'Verify an export', scope: null },
      { to: '/audit', label: 'Audit', scope: 'audit:read' },
      { to: '/signing-keys', label: 'Signing keys', scope: null },
    ],
  },
  {
    title: 'Account',
    places: [
      { to: '/api-keys', label: 'API keys', scope: 'keys:manage' },
      { to: '/channels', label: 'Channels', scope: 'webhooks:manage' },
      { to: '/webhooks', label: 'Webhooks', scope: 'webhooks:manage' },
      { to: '/people', label: 'People', scope: 'users:manage' },
      { to: '/settings', label: 'Settings', scope: null },
    ],
  },
];

const pageOfPrefix: Readonly<Record<string, string>> = {
  pass: '/passports',
  gate: '/gates',
  att: '/attestations',
  appr: '/approvals',
  mpin: '/mcp-pins',
  wal: '/wallets',
  chan: '/channels',
  wh: '/webhooks',
};

/** The address of the thing with this id; null: it is no id of a thing that has a page. */
export function placeOfId(text: string): string | null {
  const prefix = /^([a-z]+)_[0-9a-z]{26}$/.exec(text.trim())?.[1] ?? '';
  const page = pageOfPrefix[prefix];
  return page === undefined ? null : `${page}/${text.trim()}`;
}
