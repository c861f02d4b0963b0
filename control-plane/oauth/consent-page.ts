import { sha256Bytes } from '../../shared/crypto/content-hash.ts';
import { makesKeys, type Scope } from '../../shared/model/scopes.ts';
import { parseWebUrl } from '../../shared/wire/api/domain.ts';

/** A page as it is answered. */
export interface Page {
  readonly html: string;
  readonly headers: Readonly<Record<string, string>>;
}

export interface ConsentPageFacts {
  /** The client's own name. It is unverified, so its host is shown too. */
  readonly clientName: string;
  readonly clientId: string;
  readonly redirectUri: string;
  readonly scopes: readonly Scope[];
  /** The target of the form, with the token that proves this page was served. */
  readonly action: string;
  readonly formToken: string;
  /** The fault of the last try. */
  readonly problem: string | null;
}

/** Names client and scopes, and asks for an API key. No scripts, no external resources, no framing. */
export function renderConsentPage(facts: ConsentPageFacts): Page {
  const { clientName, clientId, redirectUri, scopes, action, formToken, problem } = facts;
  const host = hostOf(clientId);
  const origin =
    host === null
      ? 'It registered itself, and <strong>nobody has checked who it is</strong>'
      : `It describes itself at <strong>${escapeHtml(host)}</strong>`;
  const items = scopes.map(
    (scope) => `<li>${escapeHtml(scopeWords[scope])} <code>${escapeHtml(scope)}</code></li>`,
  );
  const body = `
<h1>${escapeHtml(clientName)} asks for access</h1>
<p>${origin}, and you will be sent back to
<strong>${escapeHtml(describeRedirect(redirectUri))}</strong>. If you did not start this, choose Deny.</p>
<p>It wants to:</p>
<ul>${items.join('')}</ul>
<form method="post" action="${escapeHtml(action)}" autocomplete="off">
<input type="hidden" name="form_token" value="${escapeHtml(formToken)}">
<label for="api_key">Your API key</label>
<input id="api_key" name="api_key" type="password" autocomplete="off" spellcheck="false" autofocus>
${problem === null ? '' : `<p class="problem" role="alert">${escapeHtml(problem)}</p>`}
<p>${escapeHtml(clientName)} does not get to see the key. It can do no more than the key can, and loses its access when the key is deleted,
rolled or expires.${scopes.some(makesKeys) ? ' API keys that it creates end with your key, too.' : ''}</p>
<button name="choice" value="allow">Allow</button>
<button name="choice" value="deny">Deny</button>
</form>`;
  return page('Allow access?', body, `'self' ${formTarget(redirectUri)}`);
}

/** The host of a client that describes itself at its id; null for a registered client. */
export const hostOf = (clientId: string): string | null =>
  URL.canParse(clientId) ? new URL(clientId).host : null;

/** For errors that cannot be sent back to the client. */
export const renderErrorPage = (problem: string): Page =>
  page('This did not work', `<h1>This did not work</h1><p>${escapeHtml(problem)}</p>`, "'none'");

/** The scopes in words for people who have not read the documentation. */
const scopeWords: Readonly<Record<Scope, string>> = {
  'passports:issue': 'issue passports to agents',
  'passports:read': 'read passports',
  'passports:revoke': 'revoke and suspend passports',
  'gates:create': 'create gates',
  'gates:read': 'read and test gates',
  'gates:update': 'change the rules of gates',
  'gates:manage': 'do everything with gates, including deleting them',
  'issuers:create': 'create issuers',
  'issuers:read': 'read issuers',
  'issuers:update': 'change and suspend issuers',
  'templates:read': 'read templates',
  'templates:create': 'create templates',
  'osgate:read': 'read OS Gate sessions',
  'osgate:manage': 'do everything with OS Gate',
  'admin:*': 'do everything that your key can do',
  'enforcement:check': 'ask gates for decisions',
  'enforcement:delegate': 'ask gates for decisions about agents that are not there',
  'attestations:read': 'read the records of decisions',
  'audit:read': 'read who changed what',
  'approvals:read': 'read requests that wait for approval',
  'approvals:resolve': 'approve and deny requests',
  'webhooks:manage': 'manage webhooks',
  'keys:manage': 'create, roll and delete API keys',
  'users:manage': 'invite, confirm, change and delete people',
  'sidecars:connect': 'connect sidecars',
  'wallets:read': 'read wallets and what is spent from them',
  'wallets:manage': 'make, change and freeze wallets',
};

const style = `:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:34rem;margin:3rem auto;padding:0 1rem;overflow-wrap:anywhere}
h1{font-size:1.4rem}label,input{display:block}input{width:100%;box-sizing:border-box;font:inherit;padding:.5rem;margin:.3rem 0 1rem}
button{font:inherit;padding:.5rem 1.5rem;margin-right:.5rem}code{color:light-dark(#666,#aaa)}.problem{color:light-dark(#b00020,#ff8a80);font-weight:bold}`;

const styleHash = Buffer.from(sha256Bytes(style)).toString('base64');

function page(title: string, body: string, formAction: string): Page {
  const policy = [
    "default-src 'none'",
    `style-src 'sha256-${styleHash}'`,
    `form-action ${formAction}`,
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ];
  return {
    html: `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(title)} · agent-trust</title><style>${style}</style></head>
<body>${body}</body></html>
`,
    headers: {
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': policy.join('; '),
      'x-content-type-options': 'nosniff',
      'x-frame-options': 'DENY',
      'referrer-policy': 'no-referrer',
      'cache-control': 'no-store',
    },
  };
}

/**
 * Browsers apply `form-action` to redirects after a form too: without the client's address the answer would
 * never reach it. For IPv6 addresses, schemes of apps, and hosts with characters that would end the
 * directive, the policy names the scheme only.
 */
function formTarget(redirectUri: string): string {
  const { protocol, host } = new URL(redirectUri);
  const isNameable = /^https?:$/.test(protocol) && /^[a-z0-9.-]+(:\d+)?$/.test(host);
  return isNameable ? `${protocol}//${host}` : protocol;
}

function describeRedirect(redirectUri: string): string {
  const { protocol, host } = new URL(redirectUri);
  if (protocol === 'https:') return host;
  return isLoopback(redirectUri)
    ? `a program on this computer (${host})`
    : `the app that opens ${protocol} links`;
}

/** Whether it leads to the browser's own computer. */
export function isLoopback(redirectUri: string): boolean {
  const url = parseWebUrl(redirectUri);
  return url?.protocol === 'http:' && ['localhost', '127.0.0.1', '[::1]'].includes(url.hostname);
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};
const escapeHtml = (text: string): string =>
  text.replaceAll(/[&<>"']/g, (character) => entities[character] ?? '');
