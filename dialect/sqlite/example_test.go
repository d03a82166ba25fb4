package sqlite_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/keystrand/keystrand/dialect/sqlite"
)

func ExampleBegin() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "sqlite")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	db, err := sqlite.Open(filepath.Join(dir, "shop.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = db.Close() }()

	tx, err := sqlite.Begin(ctx, db)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	fmt.Println("a writer:", sqlite.Dialect.CheckWriter(ctx, tx) == nil)
	// Output: a writer: true
}
