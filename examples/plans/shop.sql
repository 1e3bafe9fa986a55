-- Customers and their plans. A change of either sets changed, in microseconds since 1970.
CREATE TABLE plans (
  name TEXT PRIMARY KEY,
  permits INTEGER NOT NULL CHECK (permits > 0), -- a minute
  changed INTEGER NOT NULL
);
CREATE TABLE customers (
  key TEXT PRIMARY KEY, -- SHA-256 of it, hexadecimal
  id TEXT NOT NULL UNIQUE,
  plan TEXT NOT NULL REFERENCES plans (name),
  changed INTEGER NOT NULL
);
INSERT INTO plans VALUES ('trial', 3, 1), ('gold', 100, 1);
INSERT INTO customers VALUES
  ('21fdbeecb49c56644f6cc4444328f5da14132c8a38fd86aad19b4da9e521a79c', 'ann', 'trial', 1), -- ann-key
  ('9b94dc1a51a38769f135edf04033ad7f2f487b6c25929be7a861cfc1ab10cf98', 'bob', 'gold', 1); -- bob-key
