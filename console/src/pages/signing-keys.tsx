import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { api, type KeyRotation } from '../api/client.ts';
import { useSession } from '../api/session.tsx';
import { useAction } from '../ui/action.ts';
import { Badge } from '../ui/badge.tsx';
import { Id } from '../ui/copy.tsx';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { Check, Select, TextField } from '../ui/field.tsx';
import { Form } from '../ui/form.tsx';
import { PageHead, Problem, Waiting } from '../ui/page.tsx';
import { Time } from '../ui/time.tsx';
import { TransparencyLog } from './transparency-log.tsx';

type Purpose = KeyRotation['purpose'];
const purposes: readonly (readonly [Purpose, string])[] = [
  ['passport', 'Passports'],
  ['catalog', 'Catalogs'],
  ['attestation', 'Attestations and audit'],
  ['log', 'Checkpoints of the log'],
  ['sync', 'Changes for sidecars'],
];

export default function SigningKeysPage(): ReactNode {
  const { may, session, mode } = useSession();
  const mayRotate = may('admin:*') && session.account.is_operator && mode === 'live';
  const [isRotating, setRotating] = useState(false);
  const query = useQuery({ queryKey: ['signing-keys'], queryFn: () => api.signingKeys.jwks() });
  if (query.isPending) return <Waiting what="the keys" />;
  if (query.isError) return <Problem error={query.error} onRetry={() => void query.refetch()} />;
  const keys = [...query.data.keys].sort(
    (one, other) => one.purpose.localeCompare(other.purpose) || other.nbf - one.nbf,
  );
  return (
    <>
      <PageHead
        title="Signing keys"
        actions={
          mayRotate ? (
            <button type="button" className="button" onClick={() => setRotating(true)}>
              Rotate a key
            </button>
          ) : undefined
        }
      >
        With these keys this service signs. Anybody can fetch them, and verify with them for ever.
      </PageHead>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
      <div className="card scroll-x" tabIndex={0}>
        <table className="plain">
          <thead>
            <tr>
              <th>Signs</th>
              <th>Status</th>
              <th>Key id</th>
              <th>From</th>
              <th>Until</th>
            </tr>
          </thead>
          <tbody>
            {keys.map((key) => (
              <tr key={key.kid}>
                <td>{purposes.find(([purpose]) => purpose === key.purpose)?.[1] ?? key.purpose}</td>
                <td>
                  <Badge
                    value={key.compromised ? 'compromised' : key.retired_at === null ? 'signs' : 'retired'}
                  />
                </td>
                <td>
                  <Id id={key.kid} what="key id" />
                </td>
                <td>
                  <Time at={new Date(key.nbf * 1_000).toISOString()} />
                </td>
                <td>
                  <Time at={key.retired_at} otherwise="now" />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <TransparencyLog />
      {isRotating ? <RotateDialog onClose={() => setRotating(false)} /> : null}
    </>
  );
}

function RotateDialog({ onClose }: { onClose(): void }): ReactNode {
  const [purpose, setPurpose] = useState<string>('passport');
  const [isCompromised, setCompromised] = useState(false);
  const [typed, setTyped] = useState('');
  const rotate = useAction({
    run: () =>
      api.signingKeys.rotate({
        purpose: purposes.find(([each]) => each === purpose)?.[0] ?? 'passport',
        compromised: isCompromised,
      }),
    changes: ['signing-keys'],
    done: 'A new key is published.',
    onDone: onClose,
  });
  return (
    <Dialog title="Rotate a key" onClose={onClose}>
      <p className="soft">The new key signs after a minute, so that every verifier knows it by then.</p>
      <Form error={rotate.error} onSubmit={() => rotate.mutate(undefined)}>
        <Select label="Key for" param="purpose" value={purpose} onChange={setPurpose} options={purposes} />
        <Check label="Somebody else may have the old key" checked={isCompromised} onChange={setCompromised} />
        {isCompromised ? (
          <>
            <p className="notice bad">
              At once, nothing that the old key signed is believed any more. All passports under it are
              blocked.
            </p>
            <TextField label="Type: stolen" value={typed} onChange={setTyped} />
          </>
        ) : null}
        {rotate.error === null ? null : <Problem error={rotate.error} />}
        <DialogActions
          onCancel={onClose}
          submit="Rotate"
          isBusy={rotate.isPending || (isCompromised && typed !== 'stolen')}
          isDanger={isCompromised}
        />
      </Form>
    </Dialog>
  );
}
