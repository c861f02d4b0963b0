-- How people came, for who may answer approvals (contract §2 and §8).

ALTER TABLE users
  -- The key or person that made the last link. Null: the first owner, or not known.
  ADD COLUMN invited_by text,
  -- By a link that somebody saw, by one that was mailed and shown to nobody, or by the first login with OIDC.
  ADD COLUMN came_by text NOT NULL DEFAULT 'link' CHECK (came_by IN ('first_owner', 'link', 'mail', 'oidc')),
  -- Null: answers no approval until another person has confirmed them.
  ADD COLUMN confirmed_at_ms bigint;

-- Who invited whom is in the audit. People who have accepted before this version go on answering.
UPDATE users SET confirmed_at_ms = accepted_at_ms, invited_by = (
  SELECT actor_id FROM audit_entries a
  WHERE a.account_id = users.account_id AND a.mode = 'live' AND a.target = users.user_id
    AND operation IN ('inviteUser', 'renewInvitation')
  ORDER BY sequence DESC LIMIT 1);
UPDATE users SET came_by = 'first_owner' WHERE invited_by IS NULL AND accepted_at_ms IS NOT NULL;

-- A replica of the version before makes a first owner, whom nobody could confirm.
CREATE FUNCTION confirm_first_owner() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.confirmed_at_ms := NEW.accepted_at_ms;
  NEW.came_by := 'first_owner';
  RETURN NEW;
END $$;
CREATE TRIGGER users_first_owner BEFORE INSERT ON users FOR EACH ROW
  WHEN (NEW.accepted_at_ms IS NOT NULL AND NEW.confirmed_at_ms IS NULL)
  EXECUTE FUNCTION confirm_first_owner();

-- A subject that is empty, too long or not ASCII names nobody (OpenID Connect Core §2): whoever came second
-- with an empty one was logged in as the first. Their users are linked again at their next login.
DELETE FROM oidc_identities WHERE subject !~ '^[!-~]([ -~]{0,253}[!-~])?$';
