package rules_test

import (
	"errors"
	"fmt"

	"github.com/shardlimit/shardlimit/envoylimit/rules"
)

func ExampleParse() {
	_, err := rules.Parse([]rules.File{{Name: "mail.yaml", Content: []byte(`domain: mail
descriptors:
  - key: sender
    rate_limit: {unit: minuet, requests_per_unit: 5}`)}})
	fmt.Println(errors.Is(err, rules.ErrInvalid), err)
	// Output: true mail.yaml:3: the unit "minuet" is unknown; say second, minute, hour, day, week or month
}

func ExampleConfig_Match() {
	c, err := rules.Parse([]rules.File{{Name: "mail.yaml", Content: []byte(`domain: mail
descriptors:
  - key: sender
    rate_limit: {unit: minute, requests_per_unit: 5}`)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	m, ok := c.Match("mail", []rules.Entry{{Key: "sender", Value: "ann"}})
	fmt.Println(ok, m.Requests, m.Unit, m.ID, m.Key)
	// Output: true 5 minute mail/sender ann
}

func ExampleUnitNamed() {
	unit, ok := rules.UnitNamed("HOUR")
	fmt.Println(unit, unit.Duration(), ok)
	// Output: hour 1h0m0s true
}
