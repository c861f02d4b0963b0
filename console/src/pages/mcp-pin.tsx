import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { useId } from '../api/address.ts';
import { api, type McpPin } from '../api/client.ts';
import { pollMs } from '../api/live.ts';
import { useSession } from '../api/session.tsx';
import { useAction } from '../ui/action.ts';
import { Badge } from '../ui/badge.tsx';
import { Id } from '../ui/copy.tsx';
import { JsonView } from '../ui/json-view.tsx';
import { GateName, KnownName } from '../ui/names.tsx';
import { Card, Facts, PageHead, Problem, Waiting } from '../ui/page.tsx';
import { Time } from '../ui/time.tsx';
import { changeInWords } from './mcp-pins.tsx';

export default function McpPinPage(): ReactNode {
  const id = useId();
  const query = useQuery({
    queryKey: ['mcp-pins', 'one', id],
    queryFn: () => api.mcpPins.get(id),
    refetchInterval: pollMs(),
  });
  if (query.isPending) return <Waiting what="the tool" />;
  if (query.isError) return <Problem error={query.error} onRetry={() => void query.refetch()} />;
  const pin = query.data;
  return (
    <>
      <PageHead title={pin.tool} above={{ to: '/mcp-pins', label: 'MCP tools' }}>
        <Badge value={pin.status} />
      </PageHead>
      <div className="stack">
        {pin.new_hash === null ? null : <Change key={pin.new_hash} pin={pin} />}
        <Card title="The pin">
          <Facts
            items={[
              ['Pin', <Id key="id" id={pin.pin_id} what="pin id" />],
              ['Server', <code key="upstream">{pin.upstream}</code>],
              ['Gate', <GateName key="gate" id={pin.gate_id} />],
              ['First seen', <Time key="first" at={pin.first_seen_at} />],
              ['Changed', <Time key="changed" at={pin.changed_at} otherwise="never" />],
              ['Answered', <Time key="answered" at={pin.resolved_at} otherwise="never" />],
              ['By', pin.resolved_by === null ? 'nobody' : <KnownName key="by" id={pin.resolved_by} orId />],
              ['In force', pin.hash === null ? 'nothing yet' : <code key="hash">{pin.hash}</code>],
            ]}
          />
        </Card>
        {pin.definition === null ? null : (
          <Card title="In force">
            <JsonView value={JSON.parse(pin.definition)} what="the tool in force" />
          </Card>
        )}
        {pin.new_definition === null ? null : (
          <Card title="As the server shows it">
            <JsonView value={JSON.parse(pin.new_definition)} what="the changed tool" />
          </Card>
        )}
      </div>
    </>
  );
}

/** What a person accepts is the definition on the page: its hash goes with the answer. */
function Change({ pin }: { readonly pin: McpPin }): ReactNode {
  const { may } = useSession();
  const body = { hash: pin.new_hash ?? '' };
  const changes = ['mcp-pins'];
  const accept = useAction({
    run: () => api.mcpPins.accept(pin.pin_id, body),
    changes,
    done: `Accepted: ${pin.tool} may be called.`,
  });
  const reject = useAction({
    run: () => api.mcpPins.reject(pin.pin_id, body),
    changes,
    done: `Rejected: ${pin.tool} stays refused as it is now.`,
  });
  const isBusy = accept.isPending || reject.isPending;
  const error = accept.error ?? reject.error;
  return (
    <Card title={changeInWords(pin)}>
      <ul className="stack tight differences" aria-label="Differences">
        {pin.differences.map(({ pointer, before, after }) => (
          <li key={pointer}>
            <code>{pointer}</code>
            {before === null ? null : <Side sign="−" name="before" text={before} />}
            {after === null ? null : <Side sign="+" name="now" text={after} />}
          </li>
        ))}
      </ul>
      {pin.differences.length === 0 ? (
        <p className="soft">Its definition is the same as before.</p>
      ) : (
        <p className="soft">
          Characters that hide or turn text are shown as codes, such as <code>\u200b</code>.
        </p>
      )}
      {error === null ? null : <Problem error={error} />}
      {may('gates:update') ? (
        <div className="row">
          <button
            type="button"
            className="button primary large"
            disabled={isBusy}
            onClick={() => accept.mutate(undefined)}
          >
            {accept.isPending ? 'Accepting…' : 'Accept the tool as it is now'}
          </button>
          {pin.status === 'rejected' ? null : (
            <button
              type="button"
              className="button danger large"
              disabled={isBusy}
              onClick={() => reject.mutate(undefined)}
            >
              {reject.isPending ? 'Rejecting…' : 'Reject'}
            </button>
          )}
        </div>
      ) : (
        <p className="soft">Your role may look at changes, but not accept them.</p>
      )}
    </Card>
  );
}

function Side({
  sign,
  name,
  text,
}: {
  readonly sign: string;
  readonly name: 'before' | 'now';
  readonly text: string;
}): ReactNode {
  return (
    <div className={`side ${name}`}>
      <span aria-hidden="true">{sign}</span>
      <span className="sr-only">{name}: </span>
      <code>{text}</code>
    </div>
  );
}
