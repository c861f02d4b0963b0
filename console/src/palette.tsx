import { useQuery } from '@tanstack/react-query';
import { type KeyboardEvent, type ReactNode, useEffect, useId, useState } from 'react';
import { useGo } from './api/address.ts';
import { api } from './api/client.ts';
import { people } from './api/people.ts';
import { useSession, useSetSession } from './api/session.tsx';
import { navigation, placeOfId } from './navigation.ts';
import { useModal } from './ui/dialog.tsx';
import { chooseTheme } from './ui/theme.ts';

interface Choice {
  readonly label: string;
  readonly kind: string;
  run(): void;
}

/** Things that one does, with the address at which they begin. */
const tasks = [
  { to: '/passports?new=1', label: 'Issue a passport', scope: 'passports:issue' },
  { to: '/gates?new=1', label: 'Create a gate', scope: 'gates:create' },
  { to: '/first-request', label: 'Make a first guarded request', scope: 'gates:read' },
  { to: '/api-keys?new=1', label: 'Create an API key', scope: 'keys:manage' },
  { to: '/channels?new=1', label: 'Add a channel for approvals', scope: 'webhooks:manage' },
  { to: '/webhooks?new=1', label: 'Add a webhook', scope: 'webhooks:manage' },
  { to: '/people?new=1', label: 'Invite somebody', scope: 'users:manage' },
] as const;

/** A pause in the typing after which the service is asked: each question counts towards the plan. */
const typingPauseMs = 200;
/** Of each kind, so that all fit into the window. */
const foundMost = 5;

/** Search by keyboard: pages, actions, things by a part of their name, and whatever an id names. */
export function Palette({ onClose }: { onClose(): void }): ReactNode {
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const dialog = useModal();
  const listId = useId();
  const wanted = text.trim();
  const choices = [...useOwnChoices(wanted), ...useThings(wanted), ...useSearches(wanted)];

  const choose = (choice: Choice | undefined) => {
    if (choice === undefined) return;
    onClose();
    choice.run();
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
            key={`${choice.kind} ${choice.label}`}
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

/** What needs no question: pages, actions, and the thing with this id. */
function useOwnChoices(text: string): readonly Choice[] {
  const { may } = useSession();
  const go = useGo();
  const commands = useCommands();
  const byId = placeOfId(text);
  if (byId !== null) return [{ label: `Open ${text}`, kind: 'Id', run: () => go(byId) }];
  const pages = navigation
    .flatMap(({ places }) => places)
    .filter(({ scope }) => scope === null || may(scope))
    .map(({ to, label }) => ({ label, kind: 'Page', run: () => go(to) }));
  const actions = tasks
    .filter(({ scope }) => may(scope))
    .map(({ to, label }) => ({ label, kind: 'Action', run: () => go(to) }));
  const wanted = text.toLowerCase();
  return [...pages, ...actions, ...commands].filter(({ label }) => label.toLowerCase().includes(wanted));
}

/** Lists that begin with this text as their filter. */
function useSearches(text: string): readonly Choice[] {
  const { may } = useSession();
  const go = useGo();
  if (text === '' || placeOfId(text) !== null || !may('attestations:read')) return [];
  const to = `/attestations?agent_id=${encodeURIComponent(text)}`;
  return [{ label: `Decisions about the agent "${text}"`, kind: 'Search', run: () => go(to) }];
}

/** What is done at once, without a page. */
function useCommands(): readonly Choice[] {
  const { mode, chooseMode } = useSession();
  const setSession = useSetSession();
  const other = mode === 'live' ? 'test' : 'live';
  const logOut = () => void people.logOut().then(() => setSession(null));
  return [
    { label: `Show the ${other} world`, kind: 'Action', run: () => chooseMode(other) },
    { label: 'Use the dark theme', kind: 'Action', run: () => void chooseTheme('dark') },
    { label: 'Use the light theme', kind: 'Action', run: () => void chooseTheme('light') },
    { label: 'Use the theme of the system', kind: 'Action', run: () => void chooseTheme('system') },
    { label: 'Open the guide', kind: 'Action', run: () => void open('/docs/guide', '_blank', 'noopener') },
    { label: 'Log out', kind: 'Action', run: logOut },
  ];
}

/** Gates and passports by a part of their names, asked of the service. */
function useThings(text: string): readonly Choice[] {
  const { may } = useSession();
  const go = useGo();
  const [part, setPart] = useState('');
  useEffect(() => {
    const timer = setTimeout(() => setPart(text), typingPauseMs);
    return () => clearTimeout(timer);
  }, [text]);
  const isAsked = part.length > 1 && part.length <= 128 && placeOfId(part) === null;
  const page = { limit: foundMost };
  const gates = useQuery({
    queryKey: ['gates', 'palette', part],
    queryFn: () => api.gates.list({ ...page, name: part }),
    enabled: isAsked && may('gates:read'),
  });
  const agents = useQuery({
    queryKey: ['passports', 'palette', part],
    queryFn: async () => {
      const lists = [{ agent_name: part }, { agent_id: part }].map((by) =>
        api.passports.list({ ...page, ...by }),
      );
      const items = (await Promise.all(lists)).flatMap((list) => list.items);
      return [...new Map(items.map((each) => [each.passport_id, each])).values()];
    },
    enabled: isAsked && may('passports:read'),
  });
  if (!isAsked || part !== text) return [];
  return [
    ...(gates.data?.items ?? []).map(({ gate_id: id, name }) => ({
      label: `${name} (…${id.slice(-6)})`,
      kind: 'Gate',
      run: () => go(`/gates/${id}`),
    })),
    ...(agents.data ?? []).map(({ passport_id: id, agent_name, agent_id, status }) => ({
      label: `${agent_name === agent_id ? agent_id : `${agent_name} (${agent_id})`} …${id.slice(-6)}, ${status}`,
      kind: 'Passport',
      run: () => go(`/passports/${id}`),
    })),
  ];
}
