import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { useAddress } from '../api/address.ts';
import { api, type GateWithStats } from '../api/client.ts';
import { useSession } from '../api/session.tsx';
import { useAction } from '../ui/action.ts';
import { Copy } from '../ui/copy.tsx';
import { GuideLink } from '../ui/guide-link.tsx';
import { Problem } from '../ui/page.tsx';
import { type Filling, firstRequestAt, mcpPermission, snippetsFor } from './first-request-snippets.ts';
import type { Secrets } from './first-request-step.tsx';

/** What asks the gate, to be copied. */
export function Code({
  gate,
  secrets,
}: {
  readonly gate: GateWithStats;
  readonly secrets: Secrets;
}): ReactNode {
  const { search, set } = useAddress();
  const request = firstRequestAt(gate, search['permission']);
  const filling: Filling = {
    gateId: gate.gate_id,
    sidecar: new URL(gate.gate_url).origin,
    controlPlane: location.origin,
    key: secrets.key,
    passport: secrets.passport,
    request,
  };
  const snippets = snippetsFor(filling);
  const shown = snippets.find(({ name }) => name === search['with']) ?? snippets[0];
  if (shown === undefined) return null;
  return (
    <>
      <TryPassport gate={gate} permission={request.permission_key} secrets={secrets} />
      <nav className="tabs" aria-label="What asks the gate">
        {snippets.map(({ name, label }) => (
          <Link
            key={name}
            to="."
            search={(before: object) => ({ ...before, with: name })}
            aria-current={name === shown.name ? 'page' : undefined}
          >
            {label}
          </Link>
        ))}
      </nav>
      <p className="soft small">
        {shown.needs} <GuideLink page={shown.guide}>The page in the guide</GuideLink>
      </p>
      {shown.name === 'nginx' && gate.routes === undefined ? (
        <AddRoute gate={gate} request={request} />
      ) : (
        shown.blocks.map(({ label, text }) => (
          <div key={label} className="stack tight">
            <div className="row between">
              <strong>{label}</strong>
              <Copy text={text} what={label} />
            </div>
            {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
            <pre className="snippet" tabIndex={0}>
              {text}
            </pre>
          </div>
        ))
      )}
      {search['permission'] === undefined ? null : (
        <button type="button" className="button" onClick={() => set({ permission: undefined })}>
          Use the usual permission
        </button>
      )}
    </>
  );
}

/** A passport with everything at its default but an end, because it is made to be thrown away. */
function TryPassport({
  gate,
  permission,
  secrets: { passport, setPassport },
}: {
  readonly gate: GateWithStats;
  readonly permission: string;
  readonly secrets: Secrets;
}): ReactNode {
  const { may } = useSession();
  const issue = useAction({
    run: () =>
      api.passports.issue({
        agent_id: `first-agent-${Date.now().toString(36)}`,
        agent_name: 'First agent',
        permissions: [permission, mcpPermission],
        expires_in: '24h',
        // The default is L1, which a gate of one's own may find too low.
        ...(gate.trust_level === 'L1' ? {} : { trust_tier: gate.trust_level }),
      }),
    changes: ['passports', 'totals'],
    onDone: ({ jwt }) => setPassport(jwt),
  });
  return (
    <div className="stack tight">
      <p className="soft">
        {passport === null
          ? `The agent shows a passport that grants ${permission}. Make one to try with, or put yours into PASSPORT.`
          : `A passport that grants ${permission} and ${mcpPermission} for a day stands in the snippets.`}
      </p>
      {issue.error === null ? null : <Problem error={issue.error} />}
      {may('passports:issue') ? (
        <div>
          <button
            type="button"
            className={passport === null ? 'button primary' : 'button'}
            disabled={issue.isPending}
            onClick={() => issue.mutate(undefined)}
          >
            {passport === null ? 'Make a passport to try with' : 'Make another passport'}
          </button>
        </div>
      ) : null}
    </div>
  );
}

/** A proxy names no permission: the gate has to know which one a path needs. */
function AddRoute({
  gate,
  request,
}: {
  readonly gate: GateWithStats;
  readonly request: Filling['request'];
}): ReactNode {
  const { may } = useSession();
  const add = useAction({
    run: () =>
      api.gates.update(gate.gate_id, {
        routes: [
          {
            path: '/*',
            permission_key: request.permission_key,
            ...(request.amount === undefined ? {} : { amount_usd: request.amount }),
          },
        ],
      }),
    changes: ['gates'],
    done: 'Route added.',
  });
  return (
    <div className="stack tight">
      <p>
        A proxy asks with a path, and the routes of the gate say which permission it needs. To begin with,
        every path can need <code>{request.permission_key}</code>.
      </p>
      {add.error === null ? null : <Problem error={add.error} />}
      {may('gates:update') ? (
        <div>
          <button
            type="button"
            className="button primary"
            disabled={add.isPending}
            onClick={() => add.mutate(undefined)}
          >
            Add this route to the gate
          </button>
        </div>
      ) : null}
    </div>
  );
}
