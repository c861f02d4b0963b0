import { type KeyboardEvent, type ReactNode, useEffect, useId, useMemo, useRef, useState } from 'react';
import { useGo } from './api/address.ts';
import { useSession } from './api/session.tsx';
import { navigation, placeOfId } from './navigation.ts';

interface Choice {
  readonly to: string;
  readonly label: string;
  readonly kind: string;
}

/** Things that one does, with the address at which they begin. */
const tasks = [
  { to: '/passports?new=1', label: 'Issue a passport', scope: 'passports:issue' },
  { to: '/gates?new=1', label: 'Create a gate', scope: 'gates:create' },
  { to: '/api-keys?new=1', label: 'Create an API key', scope: 'keys:manage' },
  { to: '/channels?new=1', label: 'Add a channel for approvals', scope: 'webhooks:manage' },
  { to: '/webhooks?new=1', label: 'Add a webhook', scope: 'webhooks:manage' },
  { to: '/people?new=1', label: 'Invite somebody', scope: 'keys:manage' },
] as const;

/** Search by keyboard: pages, tasks, and whatever an id names. */
export function Palette({ onClose }: { onClose(): void }): ReactNode {
  const { may } = useSession();
  const go = useGo();
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const dialog = useRef<HTMLDialogElement>(null);
  const listId = useId();
  useEffect(() => {
    const element = dialog.current;
    element?.showModal();
    return () => element?.close();
  }, []);

  const choices = useMemo<readonly Choice[]>(() => {
    const byId = placeOfId(text);
    if (byId !== null) return [{ to: byId, label: `Open ${text.trim()}`, kind: 'Id' }];
    const wanted = text.trim().toLowerCase();
    const pages = navigation
      .flatMap(({ places }) => places)
      .filter(({ scope }) => scope === null || may(scope))
      .map(({ to, label }) => ({ to, label, kind: 'Page' }));
    const actions = tasks
      .filter(({ scope }) => may(scope))
      .map(({ to, label }) => ({ to, label, kind: 'Action' }));
    const found = [...pages, ...actions].filter(({ label }) => label.toLowerCase().includes(wanted));
    const agent: Choice = {
      to: `/attestations?agent_id=${encodeURIComponent(text.trim())}`,
      label: `Decisions about the agent "${text.trim()}"`,
      kind: 'Search',
    };
    return wanted !== '' && may('attestations:read') ? [...found, agent] : found;
  }, [text, may]);

  const choose = (choice: Choice | undefined) => {
    if (choice === undefined) return;
    onClose();
    go(choice.to);
  };
  const onKey = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined && choices.length > 0) {
      event.preventDefault();
      setAt((at + step + choices.length) % choices.length);
    }
    if (event.key === 'Enter') {
      event.preventDefault();
      choose(choices[at]);
    }
  };
  return (
    <dialog ref={dialog} className="palette" aria-label="Search" onCancel={onClose}>
      <input
        className="input"
        role="combobox"
        aria-label="Search pages, actions and ids"
        aria-expanded="true"
        aria-controls={listId}
        aria-activedescendant={choices.length > 0 ? `${listId}-${at}` : undefined}
        placeholder="A page, an action, an agent, or an id such as pass_…"
        autoComplete="off"
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setAt(0);
        }}
        onKeyDown={onKey}
      />
      <div role="listbox" id={listId} aria-label="Results" style={{ marginTop: 8 }}>
        {choices.map((choice, index) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the keys are those of the text field (combobox)
          <div
            key={choice.to}
            id={`${listId}-${index}`}
            role="option"
            tabIndex={-1}
            aria-selected={index === at}
            onClick={() => choose(choice)}
            onMouseMove={() => setAt(index)}
          >
            <span>{choice.label}</span>
            <span className="soft small">{choice.kind}</span>
          </div>
        ))}
      </div>
    </dialog>
  );
}
