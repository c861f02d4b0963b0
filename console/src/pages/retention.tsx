import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { api, type Retention } from '../api/client.ts';
import { useSession } from '../api/session.tsx';
import { useAction } from '../ui/action.ts';
import { TextField } from '../ui/field.tsx';
import { Form } from '../ui/form.tsx';
import { count } from '../ui/format.ts';
import { Card, Problem, Waiting } from '../ui/page.tsx';
import { Time } from '../ui/time.tsx';

const useRetention = () => {
  const { may } = useSession();
  return useQuery({
    queryKey: ['retention'],
    queryFn: () => api.attestations.getRetention(),
    enabled: may('attestations:read'),
  });
};

/** How long records stay in lists. */
export function RetentionCard(): ReactNode {
  const { may } = useSession();
  const query = useRetention();
  if (!may('attestations:read')) return null;
  return (
    <Card title="Records">
      {query.isPending ? (
        <Waiting what="how long records are kept" />
      ) : query.isError ? (
        <Problem error={query.error} onRetry={() => void query.refetch()} />
      ) : (
        <>
          <p>{sentenceOf(query.data)} Nothing leaves without an archive that was verified before.</p>
          <Archived retention={query.data} />
          {may('keys:manage') ? <ChangeRetention key={query.data.days} retention={query.data} /> : null}
        </>
      )}
    </Card>
  );
}

const sentenceOf = ({ days }: Retention): string =>
  days === null
    ? 'Records are kept here as long as the operator keeps them.'
    : `Months that ended more than ${count(days)} days ago go to an archive of the operator.`;

const Archived = ({ retention }: { readonly retention: Retention }): ReactNode =>
  retention.archived_before === null ? null : (
    <p className="soft small">
      Records that arrived before <Time at={retention.archived_before} /> may be in archives.
    </p>
  );

function ChangeRetention({ retention }: { readonly retention: Retention }): ReactNode {
  const [days, setDays] = useState(retention.days === null ? '' : String(retention.days));
  const change = useAction({
    run: () => api.attestations.setRetention({ days: days.trim() === '' ? null : Number(days) }),
    changes: ['retention'],
    done: 'Saved. It counts from the next archive on.',
  });
  return (
    <Form error={change.error} onSubmit={() => change.mutate(undefined)}>
      <TextField
        label="Days to keep records"
        param="days"
        hint="30 to 3650. Empty: as long as the operator keeps them."
        inputMode="numeric"
        pattern="[0-9]*"
        value={days}
        onChange={setDays}
      />
      {change.error === null ? null : <Problem error={change.error} />}
      <div className="actions">
        <button type="submit" className="button" disabled={change.isPending}>
          Save
        </button>
      </div>
    </Form>
  );
}

/** Below a list of records: what it lacks. */
export function ArchivedNote(): ReactNode {
  const { data } = useRetention();
  return data === undefined ? null : <Archived retention={data} />;
}
