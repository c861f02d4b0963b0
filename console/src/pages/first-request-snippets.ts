import type { GateConstraints, GateWithStats } from '../../../clients/node/src/generated/api.ts';

/** What a snippet is filled in with. Null: not made yet, or shown once and gone. */
export interface Filling {
  readonly gateId: string;
  /** Origins of the sidecar and of the control plane. */
  readonly sidecar: string;
  readonly controlPlane: string;
  readonly key: string | null;
  readonly passport: string | null;
  readonly request: FirstRequest;
}

/** The smallest request that this gate permits. */
export interface FirstRequest {
  readonly permission_key: string;
  readonly amount?: number;
  readonly domain?: string;
}

export interface Snippet {
  readonly name: string;
  readonly label: string;
  /** What has to be there before. */
  readonly needs: string;
  /** Below `/docs/guide`. */
  readonly guide: string;
  /** Pasted into a shell one after the other. */
  readonly blocks: readonly { readonly label: string; readonly text: string }[];
}

/** The tool of the MCP server in the snippet; `tools:hello` is its permission. */
export const mcpPermission = 'tools:hello';

/** Only such permissions are put into a snippet: the address of the page may say anything. */
const isPermission = (text: string): boolean => /^[a-z0-9_.-]{1,60}:[a-z0-9_.-]{1,60}$/.test(text);

/** What a request of this gate needs, and for which permission where the person names none. */
export function firstRequestAt(
  { constraints, routes }: Pick<GateWithStats, 'constraints' | 'routes'>,
  named: string | undefined,
): FirstRequest {
  const amount = amountFor(constraints);
  const [domain] = constraints.allowed_domains ?? [];
  const usual = amount === null || amount === 0 ? 'research:read' : 'payments:create';
  const permission = named !== undefined && isPermission(named) ? named : routes?.[0]?.permission_key;
  return {
    permission_key: permission ?? usual,
    ...(amount === null ? {} : { amount }),
    ...(domain === undefined ? {} : { domain: domain.replace(/^\*/, 'www') }),
  };
}

/** One dollar, or as much as the limits leave; null: the gate asks for no amount. */
function amountFor({ spend_limits: spend, approvals }: GateConstraints): number | null {
  const each = [spend?.per_transaction_usd, spend?.daily_usd, spend?.monthly_usd, approvals?.above_usd];
  const limits = each.filter((limit) => typeof limit === 'number');
  if (limits.length === 0 || spend?.unpriced === 'permit') return null;
  return Math.min(1, ...limits);
}

export const snippetsFor = (filling: Filling): readonly Snippet[] => [
  curl(filling),
  express(filling),
  fastApi(filling),
  nginx(filling),
  mcp(filling),
];

/** In front of a program; a variable that is set already needs nothing. */
const withKey = ({ key }: Filling): string => (key === null ? '' : `AGENT_TRUST_API_KEY=${key} `);
const passportHeader = ({ passport }: Filling): string => `-H "X-Agent-Passport: ${passport ?? '$PASSPORT'}"`;

const ask = (filling: Filling, url: string) => ({
  label: 'Ask as the agent',
  text: `curl -i ${url} ${passportHeader(filling)}`,
});

function curl({ gateId, sidecar, key, passport, request }: Filling): Snippet {
  // The one value outside of the quotes is the variable.
  const token = passport ?? `'"$PASSPORT"'`;
  const text = [
    `curl -sS ${sidecar}/v1/gates/${gateId}/check \\`,
    `  -H "Authorization: Bearer ${key ?? '$AGENT_TRUST_API_KEY'}" \\`,
    `  -H 'Content-Type: application/json' \\`,
    `  -d '{"passport":"${token}","request":${JSON.stringify(request)}}'`,
  ].join('\n');
  return {
    name: 'curl',
    label: 'curl',
    needs: 'Nothing but curl: the question that every integration asks.',
    guide: 'sidecar-http',
    blocks: [{ label: 'Ask the gate', text }],
  };
}

/** In quotes, so that nobody takes them for imports of this file. */
const expressImports = [
  "import { Sidecar } from '@agent-trust/node';",
  "import { expressGuard } from '@agent-trust/node/express';",
  "import express from 'express';",
].join('\n');
const mcpImports = "import { createInterface } from 'node:readline';";

function express(filling: Filling): Snippet {
  const { gateId, sidecar, controlPlane, request } = filling;
  const options = [
    `gate: '${gateId}'`,
    `permission: '${request.permission_key}'`,
    ...(request.amount === undefined ? [] : [`amount: () => ${request.amount}`]),
    ...(request.domain === undefined ? [] : [`domain: () => '${request.domain}'`]),
  ];
  const text = `cat > guarded.mjs <<'END'
${expressImports}

const sidecar = new Sidecar({ url: '${sidecar}', apiKey: process.env.AGENT_TRUST_API_KEY });
const guard = expressGuard({ sidecar, controlPlaneUrl: '${controlPlane}' });

const app = express();
const ask = guard({
  ${options.join(',\n  ')},
});
app.get('/', ask, (req, res) => res.json({ record: req.agentTrust.attestation_id }));
app.listen(3000, '127.0.0.1', () => console.log('listening on 3000'));
END
${withKey(filling)}node guarded.mjs &`;
  return {
    name: 'express',
    label: 'Express',
    needs: 'Install express and @agent-trust/node first. The same works for Fastify, Hono and node:http.',
    guide: 'integrations/express',
    blocks: [{ label: 'Start a guarded service', text }, ask(filling, 'http://127.0.0.1:3000/')],
  };
}

function fastApi(filling: Filling): Snippet {
  const { gateId, sidecar, controlPlane, request } = filling;
  const options = [
    ...(request.amount === undefined ? [] : [`, amount=lambda request: ${request.amount}`]),
    ...(request.domain === undefined ? [] : [`, domain=lambda request: "${request.domain}"`]),
  ];
  const text = `cat > guarded.py <<'END'
import os

import uvicorn
from agent_trust import AsyncSidecar, GuardASGI, GuardRoute
from fastapi import FastAPI, Request

app = FastAPI()


@app.get("/")
async def root(request: Request):
    return {"record": request.state.agent_trust["attestation_id"]}


guarded = GuardASGI(
    app,
    sidecar=AsyncSidecar("${sidecar}", os.environ["AGENT_TRUST_API_KEY"]),
    control_plane_url="${controlPlane}",
    routes=[GuardRoute("GET", "/", "${gateId}", "${request.permission_key}"${options.join('')})],
)
uvicorn.run(guarded, host="127.0.0.1", port=3000)
END
${withKey(filling)}python3 guarded.py &`;
  return {
    name: 'fastapi',
    label: 'FastAPI',
    needs: 'Install fastapi, uvicorn and agent_trust first. The same works for Flask and Django.',
    guide: 'integrations/python',
    blocks: [{ label: 'Start a guarded service', text }, ask(filling, 'http://127.0.0.1:3000/')],
  };
}

/** Of the packages, which others than root cannot write: the same below the folder of the snippet. */
const nginxFolders = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
  .map((name) => `${name}_temp_path ${name};`)
  .join(' ');

function nginx(filling: Filling): Snippet {
  const { gateId, sidecar, controlPlane } = filling;
  const text = `mkdir -p site nginx && echo hello > site/index.html
(cd site && python3 -m http.server 3000 --bind 127.0.0.1) &
curl -sS ${controlPlane}/docs/guide/files/deploy/proxies/nginx.conf | sed \\
  -e 's/gate_REPLACE_ME/${gateId}/' -e 's/127.0.0.1:8090/${new URL(sidecar).host}/' \\
  -e 's/^http {/http { access_log off; ${nginxFolders}/' > nginx.conf
nginx -p "$PWD/nginx/" -c "$PWD/nginx.conf" -e stderr -g 'daemon off; pid nginx.pid;' &`;
  return {
    name: 'nginx',
    label: 'nginx',
    needs:
      'nginx on the machine of the sidecar, which then needs no key. Caddy, HAProxy and others: see the guide.',
    guide: 'integrations/proxies',
    blocks: [{ label: 'Start a service and nginx before it', text }, ask(filling, 'http://127.0.0.1:8000/')],
  };
}

function mcp(filling: Filling): Snippet {
  const { gateId, sidecar, controlPlane, passport, request } = filling;
  const amounts = request.amount === undefined ? '' : ' --amounts amounts.json';
  const call = (id: number, method: string, params: object) =>
    `'${JSON.stringify({ jsonrpc: '2.0', id, method, params })}'`;
  const start = {
    protocolVersion: '2025-06-18',
    capabilities: {},
    clientInfo: { name: 'first-agent', version: '1' },
  };
  const text = `cat > server.mjs <<'END'
${mcpImports}

const answers = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: { tools: {} },
    serverInfo: { name: 'hello', version: '1' },
  }),
  'tools/list': () => ({ tools: [{ name: 'hello', inputSchema: { type: 'object' } }] }),
  'tools/call': () => ({ content: [{ type: 'text', text: 'hello' }] }),
};
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  const result = answers[method]?.(params);
  if (result) console.log(JSON.stringify({ jsonrpc: '2.0', id, result }));
}
END${request.amount === undefined ? '' : `\necho '{"hello":${request.amount}}' > amounts.json`}`;
  const variables = `${withKey(filling)}AGENT_TRUST_PASSPORT=${passport ?? '"$PASSPORT"'} `;
  const guarded = `(printf '%s\\n' ${call(1, 'initialize', start)} \\
  ${call(2, 'tools/call', { name: 'hello', arguments: {} })}; sleep 3) |
  ${variables}npx agent-trust guard-mcp --gate ${gateId}${amounts} \\
  --sidecar ${sidecar} --control-plane ${controlPlane} -- node server.mjs`;
  return {
    name: 'mcp',
    label: 'MCP',
    needs: `The command agent-trust. A tool is a permission: the passport below may also do ${mcpPermission}.`,
    guide: 'integrations/mcp',
    blocks: [
      { label: 'Write a small MCP server', text },
      { label: 'Call its tool as the agent, through the guard', text: guarded },
    ],
  };
}
