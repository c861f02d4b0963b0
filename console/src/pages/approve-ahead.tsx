import type { ReactNode } from 'react';
import { useState } from 'react';
import { api } from '../api/client.ts';
import { useAction } from '../ui/action.ts';
import { Dialog, DialogActions } from '../ui/dialog.tsx';
import { Select, TextField } from '../ui/field.tsx';
import { Form } from '../ui/form.tsx';
import { Problem } from '../ui/page.tsx';

/** What a form about a standing approval begins with, as text. */
interface StandingDraft {
  readonly gate: string;
  /** Of these two the one that `for` names. */
  readonly for: 'passport' | 'owner';
  readonly passport: string;
  readonly owner: string;
  readonly permission: string;
  readonly each: string;
  readonly total: string;
  readonly days: string;
}

const dayMs = 86_400_000;

/** As the API takes it. What is no number is left to the service, which names the field. */
const bodyOf = (draft: StandingDraft, note: string) => ({
  gate_id: draft.gate.trim(),
  ...(draft.for === 'owner' ? { owner: draft.owner.trim() } : { passport_id: draft.passport.trim() }),
  permission_key: draft.permission.trim(),
  each_usd: Number(draft.each),
  total_usd: Number(draft.total),
  expires_at: new Date(Date.now() + (Number(draft.days) || 0) * dayMs).toISOString(),
  ...(note.trim() === '' ? {} : { note: note.trim() }),
});

/** How much, how much in all, and until when: the fields that both forms have. */
function StandingFields({
  draft,
  onChange,
}: {
  readonly draft: StandingDraft;
  onChange(draft: StandingDraft): void;
}): ReactNode {
  const set = (name: keyof StandingDraft) => (value: string) => onChange({ ...draft, [name]: value });
  return (
    <>
      <TextField
        label="Up to, in USD each"
        param="each_usd"
        inputMode="decimal"
        value={draft.each}
        onChange={set('each')}
      />
      <TextField
        label="In all, in USD"
        param="total_usd"
        hint="Counted exactly, over all sidecars. Beyond it a person is asked again."
        inputMode="decimal"
        value={draft.total}
        onChange={set('total')}
      />
      <TextField
        label="For how many days"
        param="expires_at"
        hint="At most 90."
        inputMode="decimal"
        value={draft.days}
        onChange={set('days')}
      />
    </>
  );
}

/** The form in a dialog: with gate, passport and permission given, or to be filled in. */
export function ApproveAhead({
  title,
  from,
  isGiven = false,
  onMade,
  onClose,
}: {
  readonly title: string;
  readonly from: StandingDraft;
  readonly isGiven?: boolean;
  /** Once it is made. */
  onMade?(): void;
  onClose(): void;
}): ReactNode {
  const [draft, setDraft] = useState(from);
  const [note, setNote] = useState('');
  const set = (name: keyof StandingDraft) => (value: string) => setDraft({ ...draft, [name]: value });
  const create = useAction({
    run: () => api.standingApprovals.create(bodyOf(draft, note)),
    changes: ['standing-approvals'],
    done: 'Approved ahead.',
    onDone: () => {
      onMade?.();
      onClose();
    },
  });
  return (
    <Dialog title={title} onClose={onClose}>
      <Form error={create.error} onSubmit={() => create.mutate(undefined)}>
        {isGiven ? null : (
          <>
            <TextField label="Gate" param="gate_id" hint="gate_…" value={draft.gate} onChange={set('gate')} />
            <Select
              label="For"
              value={draft.for}
              onChange={(next) => setDraft({ ...draft, for: next === 'owner' ? next : 'passport' })}
              options={[
                ['passport', 'One agent'],
                ['owner', 'All agents of an owner'],
              ]}
            />
            {draft.for === 'owner' ? (
              <TextField
                label="Owner"
                param="owner"
                hint="A person or team, as the passports name it. Later passports count, too."
                maxLength={256}
                value={draft.owner}
                onChange={set('owner')}
              />
            ) : (
              <TextField
                label="Passport"
                param="passport_id"
                hint="pass_… of this account, or one that has asked at this gate."
                value={draft.passport}
                onChange={set('passport')}
              />
            )}
            <TextField
              label="Permission"
              param="permission_key"
              hint="Such as orders:create."
              value={draft.permission}
              onChange={set('permission')}
            />
          </>
        )}
        <StandingFields draft={draft} onChange={setDraft} />
        <TextField
          label="Note"
          param="note"
          hint="Optional. It is kept in the record."
          maxLength={500}
          value={note}
          onChange={setNote}
        />
        {create.error === null ? null : <Problem error={create.error} />}
        <DialogActions onCancel={onClose} submit="Approve ahead" isBusy={create.isPending} />
      </Form>
    </Dialog>
  );
}
